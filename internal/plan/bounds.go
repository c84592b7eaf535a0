// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/transport"
	"github.com/zonelect/zonelect/zone"
)

// The cost of a request that must open its connection first.
const (
	// freshTrips are the round trips of TCP, TLS 1.3 and the request.
	freshTrips = 3
	// lostDials is how many dials in a row to a dead API server a bound allows for. With one
	// of three API servers gone, a Service's address loses more than that once in 81 times,
	// at one more DialInterval each.
	lostDials = 3
)

// dialInterval is the time after which another dial joins one that is silent, on package
// operator's connections to the API.
func dialInterval(t election.Timing) time.Duration {
	return transport.Options{AttemptTimeout: t.WithDefaults().AttemptTimeout}.WithDefaults().DialInterval
}

// Bound is how long something takes.
type Bound struct{ Mean, Worst Sum }

// Bounds is what follows from a timing. Each failover runs from the fault to the moment at
// which the next leader's work begins, for the candidate that goes first. For a later
// candidate add TakeoverDelay, if those before it are gone too. The worst is that of one fault
// while all was well before.
type Bounds struct {
	// Stop: the leader is asked to stop in good order.
	Stop Bound
	// Kill: the leader is killed, or its zone loses power.
	Kill Bound
	// DeadServer: its zone loses power, and the followers' connections end at the API server
	// in that zone. Requirements.Failover is checked against its worst.
	DeadServer Bound
	// LossInElection: as DeadServer, and the zone had etcd's leader, so that no request is
	// answered for Requirements.EtcdElection. At worst, the last renewal is seen only then.
	LossInElection Bound
	// LossInOutage: its zone loses power, and the whole API is unavailable for Requirements.APIOutage
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
	// TakeoverDelay is the longest that any candidate leaves a free lock to others, if it knows
	// them all, see zone.Order, they are healthy, and no zone is evacuated.
	TakeoverDelay Sum

	// WritesPerDay are the leader's renewals, or the process's heartbeats, see LoadOf.
	// ReadsPerDay are each follower's requests while
	// nothing changes, except its watch, which is opened again every 5 to 10 minutes.
	WritesPerDay, ReadsPerDay int
}

// BoundsOf returns what follows from a timing, given the APIOutage, Stop, RoundTrip, EtcdElection,
// Candidates, Zones and Heartbeat of requirements. Zero fields of both have their defaults. It is
// pure.
func BoundsOf(t election.Timing, r Requirements) Bounds {
	t, r = t.WithDefaults(), r.withDefaults()
	trip := func(n int) Addend { return Addend{n, "RoundTrip", r.RoundTrip} }
	lease := once("LeaseDuration", t.LeaseDuration)
	expiry := sum(lease, drift(t))
	average := sum(lease, Addend{-1, "half a RenewInterval", t.RenewInterval / 2}, trip(2), withdrawal(r))
	fresh := fresh(t, r)
	// Package election's pauses between failed requests: a follower's grow to a RenewInterval
	// plus a random half of it, a former leader's to a quarter of that.
	hang := once("request that hangs", t.AttemptTimeout)
	late := sum(hang, once("longest pause after it", t.RenewInterval*3/2))
	soon := sum(hang, once("longest pause after it", t.RenewInterval*3/8))

	missed := average.plus(once("a renewal missed now and then", share(unheard(t).Each+fresh.Total(), r.RoundTrip, t.RenewInterval)))

	back := r.APIOutage + late.Total()/2 // on average, a follower gets its first answer
	if r.APIOutage >= t.RenewDeadline {
		back += t.Precedence
	}

	return Bounds{
		Stop: Bound{
			Mean:  sum(once("Stop", r.Stop), trip(1+freshTrips)),
			Worst: sum(once("Stop", r.Stop), trip(2+freshTrips)),
		},
		Kill: Bound{
			Mean:  average,
			Worst: expiry.plus(trip(1+freshTrips), withdrawal(r)),
		},
		DeadServer: Bound{
			Mean:  missed,
			Worst: failover(t, r),
		},
		LossInElection: Bound{
			Mean:  missed,
			Worst: failover(t, r).plus(once("EtcdElection", r.EtcdElection)),
		},
		LossInOutage: Bound{
			Mean:  sum(once("longer of LeaseDuration and what the outage takes", max(t.LeaseDuration, back)), trip(1+freshTrips), withdrawal(r)),
			Worst: sum(once("APIOutage", r.APIOutage)).plus(late...).plus(expiry...).plus(fresh...).plus(fresh...).plus(withdrawal(r)),
		},
		Proof: Bound{
			Mean:  sum(trip(1 + freshTrips)),
			Worst: sum(trip(1 + freshTrips)),
		},
		Recovery: Bound{
			Mean:  sum(once("half a request that hangs and its pause", soon.Total()/2), trip(1+freshTrips), epoch(r)),
			Worst: soon.plus(fresh...).plus(trip(1), epoch(r)),
		},
		OutageSurvived:   sum(once("RenewDeadline", t.RenewDeadline)).minus(regain(t, r)),
		ElectionSurvived: electionSurvived(t, r),
		StopLeft:         sum(lease).minus(sum(once("RenewDeadline", t.RenewDeadline))).minus(reserve(t)),
		TakeoverDelay:    takeoverDelay(t, r),
		WritesPerDay:     int(24 * time.Hour / t.RenewInterval),
	}
}

// failover is the worst of Bounds.DeadServer. The last renewal was on its way when the
// connections died. A follower sees it when the silence has been long enough for it to ask.
func failover(t election.Timing, r Requirements) Sum {
	f := fresh(t, r)
	return sum(once("LeaseDuration", t.LeaseDuration), drift(t), Addend{1, "RoundTrip", r.RoundTrip}, unheard(t), withdrawal(r)).plus(f...).plus(f...)
}

func unheard(t election.Timing) Addend {
	return once("rest of the silence until a follower asks", t.Silence()-t.RenewInterval)
}

// regain is what RenewDeadline must hold besides an outage of the API. The renewal that the
// outage swallows is sent a RenewInterval after the last that counts, and its answer is due a
// RoundTrip later. A request sent right before the API is back may hang, or be refused, and the next
// request comes only after it, on a new connection. That request may learn that the renewal before it
// has landed after all: then a read and another renewal follow.
func regain(t election.Timing, r Requirements) Sum {
	return sum(once("RenewInterval", t.RenewInterval), once("request that hangs", max(t.AttemptTimeout, min(t.RenewInterval, time.Second))),
		Addend{3, "RoundTrip", r.RoundTrip}, confirmation(r)).plus(fresh(t, r)...)
}

// electionSurvived is Bounds.ElectionSurvived. The renewal that the election swallows is sent a
// RenewInterval after the last that counts. A read overtakes it, and is answered when etcd has
// a leader. It shows that the renewal has not landed, and another one follows, at worst on a
// new connection. If there is no time for a read, no election is survived. If requests on new
// connections overtake one another, nothing is certain.
func electionSurvived(t election.Timing, r Requirements) Sum {
	if request := fresh(t, r).Total(); request > t.RenewInterval {
		return sum(once("RenewInterval", t.RenewInterval), Addend{-1, "longer request on a new connection", request})
	}
	needed := sum(once("RenewInterval", t.RenewInterval), Addend{2, "RoundTrip", r.RoundTrip}, confirmation(r)).plus(fresh(t, r)...)
	left := sum(once("RenewDeadline", t.RenewDeadline)).minus(needed)
	if left.Total() < t.AttemptTimeout {
		return left.minus(sum(once("request that hangs", t.AttemptTimeout)))
	}
	return left
}

// With heartbeats, a few things take a round trip more.

// withdrawal is the write that a candidate makes before it takes a lock from a process that
// fell silent: after it no heartbeat of that process lands.
func withdrawal(r Requirements) Addend { return heartbeatTrip(r, "withdrawal of the heartbeats") }

// confirmation is the time after a heartbeat's answer until the process's own watch shows that
// its locks are unchanged.
func confirmation(r Requirements) Addend { return heartbeatTrip(r, "watch that confirms a heartbeat") }

// epoch is the write with which a process that lost its terms begins to send heartbeats again.
func epoch(r Requirements) Addend { return heartbeatTrip(r, "first heartbeat") }

func heartbeatTrip(r Requirements, name string) Addend {
	if !r.Heartbeat {
		return Addend{}
	}
	return once(name, r.RoundTrip)
}

// fresh is a request that must open its connection first, while an API server is gone.
func fresh(t election.Timing, r Requirements) Sum {
	return sum(Addend{freshTrips, "RoundTrip", r.RoundTrip}, Addend{lostDials, "lost dial", dialInterval(t)})
}

func drift(t election.Timing) Addend {
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

// takeoverDelay is the last candidate's wait, in the worst order.
func takeoverDelay(t election.Timing, r Requirements) Sum {
	order := zone.Order{Timing: t}
	s := sum(Addend{r.Zones - 1, "step between zones", order.Step()}, Addend{r.Candidates - 1, "slot between candidates", order.Slot()})
	if s.Total() > t.LeaseDuration {
		return sum(once("at most LeaseDuration", t.LeaseDuration))
	}
	return s
}

// Sum is a duration with its derivation.
type Sum []Addend

// Addend is one part of a Sum, with the name that explains it: Each, so many Times.
type Addend struct {
	Times int // negative for a subtraction
	Name  string
	Each  time.Duration
}

// Total is the total of the addends.
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

// plus returns the sum of both, in which no name occurs twice, and no addend is zero.
func (s Sum) plus(more ...Addend) Sum {
	s = slices.Clone(s)
	for _, t := range more {
		same := func(o Addend) bool { return o.Name == t.Name && o.Each == t.Each }
		if i := slices.IndexFunc(s, same); i >= 0 {
			s[i].Times += t.Times
		} else {
			s = append(s, t)
		}
	}
	return slices.DeleteFunc(s, func(t Addend) bool { return t.Times == 0 || t.Each == 0 })
}

// minus returns s minus another sum.
func (s Sum) minus(o Sum) Sum {
	for _, t := range o {
		t.Times = -t.Times
		s = s.plus(t)
	}
	return s
}

// sum is the sum of addends, see plus.
func sum(addends ...Addend) Sum { return Sum{}.plus(addends...) }

func once(name string, d time.Duration) Addend { return Addend{1, name, d} }
