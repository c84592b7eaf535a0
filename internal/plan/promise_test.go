// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/electiontest"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/plan"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/memory"
	"github.com/zonelect/zonelect/zone"
)

// trial is a leader and two followers with the timing of a plan, each on a link
// of its own, in virtual time.
type trial struct {
	*electiontest.Stage
	plan      plan.Plan
	etcd      *lockstest.Faulty // behind all links
	leader    player
	followers [2]player
}

type player struct {
	*electiontest.Seat
	*link
}

// peers are healthy candidates, each from "identity@zone".
func peers(all ...string) []locks.Peer {
	var peers []locks.Peer
	for _, text := range all {
		identity, zone, _ := strings.Cut(text, "@")
		peers = append(peers, locks.Peer{Candidate: locks.Candidate{Identity: identity, Zone: zone}})
	}
	return peers
}

// try runs f when the leader has led for a while, and ends all faults after it.
func try(t *testing.T, p plan.Plan, f func(*trial)) {
	t.Helper()
	electiontest.Scenario(t, func(s *electiontest.Stage) {
		lock := lockstest.NewFaulty(memory.New("lock"))
		all := peers("a@za", "b@zb", "c@zc")
		play := func(i int) player {
			l := newLink(lock, p.Requirements.RoundTrip)
			s.T.Cleanup(func() { l.set(up) })
			c := player{s.Seat(election.Config{
				Lock: l, Timing: p.Timing, Candidate: all[i].Candidate,
				TakeoverDelay: zone.Order{Timing: p.Timing}.TakeoverDelay,
				WatchPeers:    func(_ context.Context, tell func([]locks.Peer)) { tell(all) },
			}), l}
			c.SetStopTime(p.Requirements.Stop)
			c.Start()
			return c
		}
		r := &trial{Stage: s, plan: p, etcd: lock, leader: play(0)}
		r.leader.Leads()
		r.followers = [2]player{play(1), play(2)}
		time.Sleep(2 * time.Minute) // long enough for idle connections to close
		f(r)
	})
}

// after waits until that long after the leader has sent a renewal.
func (r *trial) after(d time.Duration) {
	r.leader.mu.Lock()
	last := r.leader.wrote
	r.leader.mu.Unlock()
	time.Sleep(time.Until(last.Add(3*r.plan.Timing.RenewInterval + d)))
}

// lastAsked is when the player sent its last request.
func (p player) lastAsked() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// all are the links.
func (r *trial) all(change func(*link)) {
	for _, p := range []player{r.leader, r.followers[0], r.followers[1]} {
		p.set(change)
	}
}

// lostDials is the most that lost dials cost each new connection.
func lostDials(p plan.Plan) time.Duration { return 3 * setting(p, "DialInterval") }

func down(l *link) { l.down = true }
func up(l *link)   { l.down = false }

// cutZone takes away the leader, and the API server that all connect to.
func (r *trial) cutZone() {
	r.leader.set(down)
	for _, f := range r.followers {
		f.sever()
		f.set(func(l *link) { l.dials = lostDials(r.plan) })
	}
}

// next waits for the next leader's work, and returns how long that took.
func (r *trial) next() time.Duration {
	r.T.Helper()
	start := time.Now()
	select {
	case <-r.followers[0].Leading:
	case <-r.followers[1].Leading:
	case <-time.After(24 * time.Hour):
		r.T.Fatal("no follower leads within a day")
	}
	return time.Since(start)
}

func (r *trial) within(what string, got time.Duration, worst plan.Sum) {
	r.T.Helper()
	if got > worst.Total() {
		r.T.Errorf("%s took %v, at most %v was promised: %v, by %+v for %+v", what, got, worst.Total(), worst, r.plan.Timing, r.plan.Requirements)
	}
}

// randomRequirements makes up requirements, which may be impossible.
func randomRequirements(dice *rand.Rand) plan.Requirements {
	upTo := func(most time.Duration) time.Duration { return time.Duration(dice.Int64N(int64(most))) }
	req := plan.Requirements{
		APIOutage: upTo(time.Minute), Stop: upTo(10 * time.Second), RoundTrip: time.Millisecond + upTo(300*time.Millisecond),
		MaxClockDrift: []float64{0, 0.001, 0.05}[dice.IntN(3)], Exclusive: dice.IntN(2) == 0,
		Candidates: 1 + dice.IntN(20),
	}
	if dice.IntN(3) > 0 {
		req.Failover = upTo(2 * time.Minute)
	}
	if dice.IntN(4) == 0 {
		req.APIOutage, req.Stop = upTo(2*time.Second), upTo(time.Second)
	}
	return req
}

// plans returns plans for possible requirements.
func plans(n int) map[string]plan.Plan {
	all := map[string]plan.Plan{"defaults": must(plan.Requirements{APIOutage: 5 * time.Second, Stop: 4 * time.Second}.Plan())}
	for seed := uint64(0); len(all) < n; seed++ {
		if p, err := randomRequirements(rand.New(rand.NewPCG(seed, 5))).Plan(); err == nil {
			all[fmt.Sprint("seed ", seed)] = p
		}
	}
	return all
}

// named is a timing that has a name, as if it had been planned.
func named(t timing.Timing, req plan.Requirements) plan.Plan {
	dial := min(200*ms, t.AttemptTimeout/4)
	return plan.Plan{Requirements: req, Timing: t, Bounds: plan.BoundsOf(t, req), Settings: []plan.Setting{{Name: "DialInterval", Value: dial}}}
}

func must(p plan.Plan, err error) plan.Plan {
	if err != nil {
		panic(err)
	}
	return p
}

// moments are the times after a renewal at which a fault is worth trying: the worst ones,
// when the renewal has landed and no other candidate has seen it, and some others.
func moments(p plan.Plan, dice *rand.Rand) []time.Duration {
	trip := p.Requirements.RoundTrip
	return []time.Duration{trip/2 + 1, trip - 1, trip + 1, p.Timing.RenewInterval - 1, time.Duration(dice.Int64N(int64(p.Timing.RenewInterval)))}
}

func eachPromise(t *testing.T, f func(*trial, time.Duration, *rand.Rand)) {
	n := 10
	if testing.Short() {
		n = 4
	}
	all := plans(n)
	for _, trip := range []time.Duration{10 * ms, 50 * ms, 100 * ms} {
		all[fmt.Sprint("fast, ", trip)] = named(timing.Fast(), plan.Requirements{RoundTrip: trip, APIOutage: 200 * ms, Stop: 400 * ms})
		all[fmt.Sprint("patient, ", trip)] = named(timing.Patient(), plan.Requirements{RoundTrip: trip, APIOutage: 44800 * ms, Stop: 5 * s})
	}
	for name, p := range all {
		t.Run(name, func(t *testing.T) {
			dice := rand.New(rand.NewPCG(uint64(p.Timing.LeaseDuration), uint64(p.Requirements.RoundTrip)))
			for _, at := range moments(p, dice) {
				try(t, p, func(r *trial) { f(r, at, dice) })
			}
		})
	}
}

func TestAPlannedStopTakesNoLongerThanPromised(t *testing.T) {
	eachPromise(t, func(r *trial, at time.Duration, _ *rand.Rand) {
		r.after(at)
		r.leader.Stop()
		r.within("the stop", r.next(), r.plan.Bounds.Stop.Worst)
	})
}

func TestAPlannedFailoverTakesNoLongerThanPromised(t *testing.T) {
	eachPromise(t, func(r *trial, at time.Duration, _ *rand.Rand) {
		r.after(at)
		r.leader.set(down)
		r.within("the failover", r.next(), r.plan.Bounds.Kill.Worst)
	})
}

func TestAPlannedFailoverToALastCandidateTakesNoLongerThanPromised(t *testing.T) {
	eachPromise(t, func(r *trial, at time.Duration, dice *rand.Rand) {
		r.after(at)
		r.followers[dice.IntN(2)].set(down)
		r.leader.set(down)
		r.within("the failover", r.next(), append(r.plan.Bounds.Kill.Worst, r.plan.Bounds.TakeoverDelay...))
	})
}

func TestAPlannedFailoverFromADeadServerTakesNoLongerThanPromisedAndRequired(t *testing.T) {
	eachPromise(t, func(r *trial, at time.Duration, _ *rand.Rand) {
		r.after(at)
		r.cutZone()
		took := r.next()
		r.within("the failover", took, r.plan.Bounds.DeadServer.Worst)
		if most := r.plan.Requirements.Failover; most > 0 && took > most {
			r.T.Errorf("the failover took %v, %v was required", took, most)
		}
	})
}

func TestAPlannedFailoverInAnOutageTakesNoLongerThanPromised(t *testing.T) {
	eachPromise(t, func(r *trial, at time.Duration, _ *rand.Rand) {
		r.after(at)
		start := time.Now()
		r.all(down)
		r.cutZone()
		time.Sleep(r.plan.Requirements.APIOutage)
		for _, f := range r.followers {
			f.set(up)
		}
		r.next()
		r.within("the failover", time.Since(start), r.plan.Bounds.LossInOutage.Worst)
	})
}

func TestAPlannedLeaderSurvivesTheOutageThatWasPromisedAndRequired(t *testing.T) {
	eachPromise(t, func(r *trial, at time.Duration, dice *rand.Rand) {
		most := r.plan.Bounds.OutageSurvived.Total()
		if most < r.plan.Requirements.APIOutage {
			r.T.Fatalf("promised is %v, required is %v", most, r.plan.Requirements.APIOutage)
		}
		r.after(at)
		for left := most; left > 0; { // first refused, then silent, or the other way round
			part := min(left, time.Duration(dice.Int64N(int64(most))+1))
			refuse := dice.IntN(2) == 0
			r.all(func(l *link) { l.down, l.refuse, l.dials = true, refuse, lostDials(r.plan) })
			time.Sleep(part)
			left -= part
		}
		r.all(up)
		time.Sleep(2 * r.plan.Timing.LeaseDuration)
		r.leader.Stays()
	})
}

func TestAPlannedOutageIsPromisedToARenewIntervalOfWhatIsSurvived(t *testing.T) {
	eachPromise(t, func(r *trial, _ time.Duration, _ *rand.Rand) {
		timing, trip := r.plan.Timing, r.plan.Requirements.RoundTrip
		r.after(trip/2 + 1) // the renewal has landed, and no follower knows
		r.all(down)
		time.Sleep(r.plan.Bounds.OutageSurvived.Total() + timing.RenewInterval + lostDials(r.plan) + 6*trip)
		r.all(up)
		if took, cause := r.leader.Loses(); !errors.Is(cause, election.ErrLost) || took > timing.RenewInterval {
			r.T.Errorf("after the outage the term went on for %v and ended with %v", took, cause)
		}
	})
}

// elects takes etcd's leader away for a while.
func (r *trial) elects(takes time.Duration, lose bool) {
	r.etcd.Set(lockstest.Fault{Hold: true, LoseWrites: lose})
	time.AfterFunc(takes, func() { r.etcd.Set(lockstest.Fault{}) })
}

// TestAPlannedLeaderSurvivesTheEtcdElectionThatWasPromised, though its API server may be lost
// at the same time.
func TestAPlannedLeaderSurvivesTheEtcdElectionThatWasPromised(t *testing.T) {
	eachPromise(t, func(r *trial, at time.Duration, dice *rand.Rand) {
		takes := r.plan.Bounds.ElectionSurvived.Total()
		if takes <= 0 {
			return
		}
		if dice.IntN(2) == 0 {
			takes = time.Duration(dice.Int64N(int64(takes)))
		}
		r.after(at)
		r.elects(takes, dice.IntN(2) == 0)
		if dice.IntN(2) == 0 {
			r.leader.sever()
			r.leader.set(func(l *link) { l.dials = lostDials(r.plan) })
		}
		time.Sleep(takes + 2*r.plan.Timing.LeaseDuration)
		r.leader.Stays()
	})
}

func TestAnEtcdElectionIsPromisedToARequestAndARenewIntervalOfWhatIsSurvived(t *testing.T) {
	eachPromise(t, func(r *trial, _ time.Duration, dice *rand.Rand) {
		b, timing, trip := r.plan.Bounds, r.plan.Timing, r.plan.Requirements.RoundTrip
		if b.ElectionSurvived.Total() <= 0 {
			return
		}
		r.after(trip + 1)
		r.elects(b.ElectionSurvived.Total()+timing.RenewInterval+lostDials(r.plan)+5*trip, dice.IntN(2) == 0)
		time.Sleep(2 * timing.RenewDeadline)
		if took, cause := r.leader.Loses(); !errors.Is(cause, election.ErrLost) || took > timing.RenewInterval {
			r.T.Errorf("after the election the term went on for %v and ended with %v", took, cause)
		}
	})
}

func TestAPlannedFailoverInAnEtcdElectionTakesNoLongerThanPromised(t *testing.T) {
	eachPromise(t, func(r *trial, at time.Duration, dice *rand.Rand) {
		req := r.plan.Requirements
		req.EtcdElection = time.Duration(dice.Int64N(int64(min(3*time.Second, r.plan.Timing.RenewDeadline))))
		r.after(at)
		r.elects(req.EtcdElection, dice.IntN(2) == 0)
		r.cutZone()
		r.within("the failover", r.next(), plan.BoundsOf(r.plan.Timing, req).LossInElection.Worst)
	})
}

func TestAPlannedRecoveryTakesNoLongerThanPromised(t *testing.T) {
	eachPromise(t, func(r *trial, at time.Duration, dice *rand.Rand) {
		stay := r.plan.Bounds.Recovery.Worst.Total() <= r.plan.Timing.Precedence
		if !stay { // another candidate may lead before
			r.followers[0].Stop()
			r.followers[1].Stop()
		}
		r.after(at)
		r.all(func(l *link) { l.down, l.dials = true, lostDials(r.plan) })
		time.Sleep(r.plan.Timing.LeaseDuration + r.plan.Requirements.Stop + time.Duration(dice.Int64N(int64(time.Minute))))
		for last := r.leader.lastAsked(); r.leader.lastAsked().Equal(last); {
			time.Sleep(time.Millisecond) // the worst is a request that was just sent
		}
		r.all(up)
		_, took := r.leader.Leads()
		r.within("the recovery", took, r.plan.Bounds.Recovery.Worst)
		if stay {
			r.followers[0].Idles()
			r.followers[1].Idles()
		}
	})
}

func TestAnOutageLongerThanPromisedNeverMakesTwoLeaders(t *testing.T) {
	eachPromise(t, func(r *trial, at time.Duration, dice *rand.Rand) {
		r.after(at)
		r.all(func(l *link) { l.down, l.refuse = true, dice.IntN(2) == 0 })
		time.Sleep(r.plan.Bounds.OutageSurvived.Total() + time.Duration(dice.Int64N(int64(2*r.plan.Timing.LeaseDuration))))
		r.all(up)
		time.Sleep(3 * r.plan.Timing.LeaseDuration) // the stage checks the terms
	})
}

func TestPlannedMeansAreNearWhatIsMeasured(t *testing.T) {
	const parts = 20
	for name, p := range plans(4) {
		for fault, test := range map[string]struct {
			strike func(*trial)
			mean   plan.Sum
		}{
			"stop":        {func(r *trial) { r.leader.Stop() }, p.Bounds.Stop.Mean},
			"kill":        {func(r *trial) { r.leader.set(down) }, p.Bounds.Kill.Mean},
			"dead server": {func(r *trial) { r.cutZone() }, p.Bounds.DeadServer.Mean},
		} {
			t.Run(name+", "+fault, func(t *testing.T) {
				var sum time.Duration
				for i := range parts {
					try(t, p, func(r *trial) {
						r.after((2*time.Duration(i) + 1) * p.Timing.RenewInterval / (2 * parts))
						test.strike(r)
						sum += r.next()
					})
				}
				got, off := sum/parts, 2*p.Requirements.RoundTrip+p.Timing.RenewInterval/parts
				if want := test.mean.Total(); got < want-off || got > want+off {
					t.Errorf("the mean is %v, promised was %v: %v", got, want, test.mean)
				}
			})
		}
	}
}
