// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zonelect/zonelect/election"
)

// The cost of a request that must open its connection first.
const (
	// freshTrips are the round trips of TCP, TLS 1.3 and the request.
	freshTrips = 3
	// lostDials is how many dials in a row to a dead API server a bound allows for. With one
	// of three API servers gone, a Service's address loses more than that once in 81 times,
	// at one more DialInterval each.
	lostDials = 3
	// mostDialInterval is the DialInterval of package operator's connections to the API.
	mostDialInterval = 200 * time.Millisecond
)

// dialInterval is the time after which another dial joins one that is silent.
func dialInterval(t election.Timing) time.Duration {
	return min(mostDialInterval, t.WithDefaults().AttemptTimeout/4)
}

// Bound is how long something takes.
type Bound struct{ Mean, Worst Sum }

// Bounds is what follows from a timing. Each failover runs from the fault to the moment at
// which the next leader's work begins, for the candidate that goes first. For a later
// candidate add HeadStart, if those before it are gone too. The worst is that of one fault
// while all was well before.
type Bounds struct {
	// Stop: the leader is asked to stop in good order.
	Stop Bound
	// Kill: the leader is killed, or its zone loses power.
	Kill Bound
	// DeadServer: its zone loses power, and the followers' connections end at the API server
	// in that zone. Wish.Failover is checked against its worst.
	DeadServer Bound
	// LossInElection: as DeadServer, and the zone had etcd's leader, so that no request is
	// answered for Wish.EtcdElection. At worst, the last renewal is seen only then.
	LossInElection Bound
	// LossInOutage: its zone loses power, and the whole API is unavailable for Wish.APIOutage
	// from then on. At worst, the last renewal is seen only then.
	LossInOutage Bound
	// Proof: the leader's container has ended, and there is proof of it: from the kubelet's
	// report of the end, or from the restarted process's first request.
	Proof Bound
	// Recovery: the API was unavailable for longer than is survived. From its return until
	// the former leader, which is alive, leads again.
	Recovery Bound

	// OutageSurvived: the API may be unavailable for this long at any time, and the leader
	// keeps its term. Negative if not even a lost request is survived.
	OutageSurvived Sum
	// ElectionSurvived: etcd may take this long to elect a leader, and lose the writes that
	// come meanwhile, and the leader keeps its term. Its API server may be lost as well.
	// Negative if none is surely survived, for example because a request on a new connection
	// takes longer than a RenewInterval.
	ElectionSurvived Sum
	// StopLeft is how long the work may take to stop, once its term is lost.
	StopLeft Sum
	// HeadStart is the longest that any candidate leaves a free lock to others, if it knows
	// them all, see Order, they are healthy, and no zone is evacuated.
	HeadStart Sum

	// WritesPerDay are the leader's renewals, or the process's heartbeats, see LoadOf.
	// ReadsPerDay are each follower's requests while
	// nothing changes, except its watch, which is opened again every 5 to 10 minutes.
	WritesPerDay, ReadsPerDay int
}

// BoundsOf returns what follows from a timing under the conditions of a wish: its APIOutage,
// Stop, RoundTrip, Candidates and Zones. Zero fields of both have their defaults. It is pure.
func BoundsOf(t election.Timing, w Wish) Bounds {
	t, w = t.WithDefaults(), w.withDefaults()
	trip := func(n int) Term { return Term{n, "RoundTrip", w.RoundTrip} }
	lease := once("LeaseDuration", t.LeaseDuration)
	expiry := sum(lease, drift(t))
	average := sum(lease, Term{-1, "half a RenewInterval", t.RenewInterval / 2}, trip(2), withdrawal(w))
	fresh := fresh(t, w)
	// A follower's pauses between failed requests grow to a RenewInterval plus a random half
	// of it; a former leader's grow to a quarter of that.
	hang := once("request that hangs", t.AttemptTimeout)
	late := sum(hang, once("longest pause after it", t.RenewInterval*3/2))
	soon := sum(hang, once("longest pause after it", t.RenewInterval*3/8))

	missed := average.and(once("a renewal missed now and then", share(unheard(t).Each+fresh.Total(), w.RoundTrip, t.RenewInterval)))

	back := w.APIOutage + late.Total()/2 // on average, a follower gets its first answer
	if w.APIOutage >= t.RenewDeadline {
		back += t.Precedence
	}

	return Bounds{
		Stop: Bound{
			Mean:  sum(once("Stop", w.Stop), trip(1+freshTrips)),
			Worst: sum(once("Stop", w.Stop), trip(2+freshTrips)),
		},
		Kill: Bound{
			Mean:  average,
			Worst: expiry.and(trip(1+freshTrips), withdrawal(w)),
		},
		DeadServer: Bound{
			Mean:  missed,
			Worst: failover(t, w),
		},
		LossInElection: Bound{
			Mean:  missed,
			Worst: failover(t, w).and(once("EtcdElection", w.EtcdElection)),
		},
		LossInOutage: Bound{
			Mean:  sum(once("longer of LeaseDuration and what the outage takes", max(t.LeaseDuration, back)), trip(1+freshTrips), withdrawal(w)),
			Worst: sum(once("APIOutage", w.APIOutage)).and(late...).and(expiry...).and(fresh...).and(fresh...).and(withdrawal(w)),
		},
		Proof: Bound{
			Mean:  sum(trip(1 + freshTrips)),
			Worst: sum(trip(1 + freshTrips)),
		},
		Recovery: Bound{
			Mean:  sum(once("half a request that hangs and its pause", soon.Total()/2), trip(1+freshTrips), epoch(w)),
			Worst: soon.and(fresh...).and(trip(1), epoch(w)),
		},
		OutageSurvived:   sum(once("RenewDeadline", t.RenewDeadline)).less(regain(t, w)),
		ElectionSurvived: electionSurvived(t, w),
		StopLeft:         sum(lease).less(sum(once("RenewDeadline", t.RenewDeadline))).less(reserve(t)),
		HeadStart:        headStart(t, w),
		WritesPerDay:     int(24 * time.Hour / t.RenewInterval),
	}
}

// failover is the worst of Bounds.DeadServer. The last renewal was on its way when the
// connections died. A follower sees it when the silence has been long enough for it to ask.
func failover(t election.Timing, w Wish) Sum {
	f := fresh(t, w)
	return sum(once("LeaseDuration", t.LeaseDuration), drift(t), Term{1, "RoundTrip", w.RoundTrip}, unheard(t), withdrawal(w)).and(f...).and(f...)
}

func unheard(t election.Timing) Term {
	return once("rest of the silence until a follower asks", t.Silence()-t.RenewInterval)
}

// regain is what RenewDeadline must hold besides an outage of the API. The renewal that the
// outage swallows is sent a RenewInterval after the last that counts, and its answer is due a
// RoundTrip later. A request sent right before the API is back may hang, and the next request
// comes only after it, on a new connection. That request may learn that the renewal before it
// has landed after all: then a read and another renewal follow.
func regain(t election.Timing, w Wish) Sum {
	return sum(once("RenewInterval", t.RenewInterval), once("request that hangs", max(t.AttemptTimeout, t.RenewInterval)),
		Term{3, "RoundTrip", w.RoundTrip}, confirmation(w)).and(fresh(t, w)...)
}

// electionSurvived is Bounds.ElectionSurvived. The renewal that the election swallows is sent a
// RenewInterval after the last that counts. A read overtakes it, and is answered when etcd has
// a leader. It shows that the renewal has not landed, and another one follows, at worst on a
// new connection. If there is no time for a read, no election is survived. If requests on new
// connections overtake one another, nothing is certain.
func electionSurvived(t election.Timing, w Wish) Sum {
	if request := fresh(t, w).Total(); request > t.RenewInterval {
		return sum(once("RenewInterval", t.RenewInterval), Term{-1, "longer request on a new connection", request})
	}
	needed := sum(once("RenewInterval", t.RenewInterval), Term{2, "RoundTrip", w.RoundTrip}, confirmation(w)).and(fresh(t, w)...)
	left := sum(once("RenewDeadline", t.RenewDeadline)).less(needed)
	if left.Total() < t.AttemptTimeout {
		return left.less(sum(once("request that hangs", t.AttemptTimeout)))
	}
	return left
}

// With heartbeats, a few things take a round trip more.

// withdrawal is the write that a candidate makes before it takes a lock from a process that
// fell silent: after it no heartbeat of that process lands.
func withdrawal(w Wish) Term { return heartbeatTrip(w, "withdrawal of the heartbeats") }

// confirmation is the time after a heartbeat's answer until the process's own watch shows that
// its locks are unchanged.
func confirmation(w Wish) Term { return heartbeatTrip(w, "watch that confirms a heartbeat") }

// epoch is the write with which a process that lost its terms begins to send heartbeats again.
func epoch(w Wish) Term { return heartbeatTrip(w, "first heartbeat") }

func heartbeatTrip(w Wish, name string) Term {
	if !w.Heartbeat {
		return Term{}
	}
	return once(name, w.RoundTrip)
}

// fresh is a request that must open its connection first, while an API server is gone.
func fresh(t election.Timing, w Wish) Sum {
	return sum(Term{freshTrips, "RoundTrip", w.RoundTrip}, Term{lostDials, "lost dial", dialInterval(t)})
}

func drift(t election.Timing) Term {
	return once(fmt.Sprintf("clock drift of %g %%", t.MaxClockDrift*100), time.Duration(float64(t.LeaseDuration)*t.MaxClockDrift))
}

// reserve is the part of a lease that the timing rules do not leave to
// RenewDeadline and StopGrace.
func reserve(t election.Timing) Sum {
	d := drift(t)
	return sum(d, once("second shared with client-go", t.LeaseDuration-room(t)-d.Each))
}

// room is the part of a lease that the timing rules leave to RenewDeadline and StopGrace.
func room(t election.Timing) time.Duration {
	t.RenewDeadline, t.StopGrace = 1, 0
	return t.RenewDeadline + t.WithDefaults().StopGrace
}

// share returns d, weighted by the fraction that span is of another span.
func share(d, span, of time.Duration) time.Duration {
	return time.Duration(float64(d) * min(1, float64(span)/float64(of)))
}

// headStart is the last candidate's wait, in the worst order.
func headStart(t election.Timing, w Wish) Sum {
	s := sum(Term{w.Zones - 1, "step between zones", Step(t)}, Term{w.Candidates - 1, "slot between candidates", Slot(t)})
	if s.Total() > t.LeaseDuration {
		return sum(once("at most LeaseDuration", t.LeaseDuration))
	}
	return s
}

// Sum is a duration with its derivation.
type Sum []Term

// Term is a summand, with the name that explains it: Each, so many Times.
type Term struct {
	Times int // negative for a subtraction
	Name  string
	Each  time.Duration
}

// Total is the total of the terms.
func (s Sum) Total() time.Duration {
	var total time.Duration
	for _, t := range s {
		total += time.Duration(t.Times) * t.Each
	}
	return total
}

// String is the formula with its numbers, such as
// "LeaseDuration 15s - half a RenewInterval 1s", without the total.
func (s Sum) String() string {
	var b strings.Builder
	for i, t := range s {
		n := max(t.Times, -t.Times)
		switch {
		case t.Times < 0:
			b.WriteString(" - ")
		case i > 0:
			b.WriteString(" + ")
		}
		if n > 1 {
			fmt.Fprintf(&b, "%d x ", n)
		}
		b.WriteString(t.Name + " " + t.Each.Round(time.Millisecond).String())
	}
	return b.String()
}

// and returns the sum of both, in which no name occurs twice, and no term is zero.
func (s Sum) and(more ...Term) Sum {
	s = slices.Clone(s)
	for _, t := range more {
		same := func(o Term) bool { return o.Name == t.Name && o.Each == t.Each }
		if i := slices.IndexFunc(s, same); i >= 0 {
			s[i].Times += t.Times
		} else {
			s = append(s, t)
		}
	}
	return slices.DeleteFunc(s, func(t Term) bool { return t.Times == 0 || t.Each == 0 })
}

// less returns s minus another sum.
func (s Sum) less(o Sum) Sum {
	for _, t := range o {
		t.Times = -t.Times
		s = s.and(t)
	}
	return s
}

// sum is the sum of terms, see and.
func sum(terms ...Term) Sum { return Sum{}.and(terms...) }

func once(name string, d time.Duration) Term { return Term{1, name, d} }
