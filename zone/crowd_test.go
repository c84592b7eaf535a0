// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package zone_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/electiontest"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/memory"
	"github.com/zonelect/zonelect/zone"
)

// counted is a lock that counts the writes that would take it.
type counted struct {
	locks.Lock
	claims *atomic.Int32
}

func (c counted) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	if r.Holder != "" && r.Details.Token == 0 {
		c.claims.Add(1)
	}
	return c.Lock.Write(ctx, base, r)
}

// far is a lock whose events arrive after that delay.
type far struct {
	locks.Lock
	distance time.Duration
}

func (f far) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	near, ended := make(chan locks.Event), make(chan error, 1)
	go func() { ended <- f.Lock.Watch(ctx, from, near) }()
	for {
		select {
		case e := <-near:
			time.Sleep(f.distance)
			select {
			case events <- e:
			case <-ctx.Done():
				return <-ended
			}
		case err := <-ended:
			return err
		}
	}
}

// throng is 50 followers, one in zd and the others in three zones, and a leader
// in za.
type throng struct {
	*electiontest.Stage
	order     zone.Order
	lock      *memory.Lock
	claims    atomic.Int32
	peers     []locks.Peer
	links     map[string]*lockstest.Faulty
	leader    *electiontest.Seat
	followers []*electiontest.Seat
}

func newThrong(s *electiontest.Stage, order zone.Order) *throng {
	g := &throng{Stage: s, order: order, lock: memory.New("lock"), links: map[string]*lockstest.Faulty{}}
	g.peers = peers("leader@za")
	for i := range 49 {
		g.peers = append(g.peers, peers(fmt.Sprintf("c%02d@%s", i, []string{"za", "zb", "zc"}[i%3]))...)
	}
	g.peers = append(g.peers, peers("last@zd")...)
	for i, p := range g.peers {
		seat := g.seat(p.Candidate, time.Duration(1+i%20)*time.Millisecond)
		seat.Start()
		if i > 0 {
			g.followers = append(g.followers, seat)
			continue
		}
		g.leader = seat
		seat.Leads()
	}
	time.Sleep(10*step + step/2)
	g.claims.Store(0)
	return g
}

func (g *throng) seat(c locks.Candidate, distance time.Duration) *electiontest.Seat {
	link := lockstest.NewFaulty(counted{g.lock, &g.claims})
	link.Set(lockstest.Fault{Delay: distance})
	g.links[c.Identity] = link
	return g.Seat(election.Config{
		Lock: far{link, distance}, Candidate: c, TakeoverDelay: g.order.TakeoverDelay,
		WatchPeers: func(ctx context.Context, tell func([]locks.Peer)) {
			tell(g.peers)
			<-ctx.Done()
		},
	})
}

// kill kills the first n candidates that would go at a takeover.
func (g *throng) kill(n int, t election.Takeover) {
	t.Peers = g.peers
	first := slices.SortedFunc(slices.Values(g.peers), func(a, b locks.Peer) int {
		x, y := t, t
		x.Candidate, y.Candidate = a.Candidate, b.Candidate
		return int(g.order.TakeoverDelay(x) - g.order.TakeoverDelay(y))
	})
	for _, p := range first[:n] {
		g.links[p.Identity].Set(lockstest.Fault{Hang: true})
	}
}

// takenOver waits for the next leader, and for attempts of others meanwhile.
func (g *throng) takenOver() (election.Term, time.Duration) {
	g.T.Helper()
	start := time.Now()
	for time.Since(start) < 2*lease {
		for _, f := range g.followers {
			select {
			case term := <-f.Leading:
				took := time.Since(start)
				time.Sleep(lease)
				return term, took
			default:
			}
		}
		time.Sleep(time.Millisecond)
	}
	g.T.Fatal("nobody leads")
	return election.Term{}, 0
}

func TestOfFiftyFollowersThreeAtMostWriteAtATakeover(t *testing.T) {
	for name, free := range map[string]struct {
		cause status.Cause
		by    func(*throng)
		after time.Duration // how long until the lock is free
	}{
		"expiry":   {status.CauseExpired, func(g *throng) { g.links["leader"].Set(lockstest.Fault{Hang: true}) }, lease},
		"release":  {status.CauseReleased, func(g *throng) { g.leader.Stop() }, 0},
		"deletion": {status.CauseDeleted, func(g *throng) { g.links["leader"].Set(lockstest.Fault{Hang: true}); g.lock.Delete() }, lease},
	} {
		for _, dead := range []int{0, 1, 5} {
			t.Run(fmt.Sprint(name, ", ", dead, " dead"), func(t *testing.T) {
				electiontest.Scenario(t, func(s *electiontest.Stage) {
					g := newThrong(s, zone.Order{})
					g.kill(dead, election.Takeover{Cause: free.cause, Previous: "leader", PreviousZone: "za"})
					free.by(g)
					term, took := g.takenOver()
					t.Logf("%d writes, %v after %v", g.claims.Load(), term.Cause, took)
					if term.Cause != free.cause {
						t.Errorf("the lock was %s", term.Cause)
					}
					if free.cause != status.CauseReleased && term.Zone == "za" {
						t.Errorf("%s leads, from the zone that fell silent", term.Holder)
					}
					if n := g.claims.Load(); n > 3 {
						t.Errorf("%d tried to take the lock", n)
					}
					if late := took - free.after; late > time.Duration(dead)*slot+100*time.Millisecond {
						t.Errorf("taken %v after it was free, with %d dead that come first", late, dead)
					}
				})
			})
		}
	}
}

func TestThePreferredZoneWinsThoughItsCandidateSawTheLastRenewalLate(t *testing.T) {
	electiontest.Scenario(t, func(s *electiontest.Stage) {
		g := newThrong(s, zone.Order{Preferred: []string{"zd"}})
		g.links["last"].Set(lockstest.Fault{Mute: true}) // its connection dies
		time.Sleep(step)                                 // a renewal that it does not see
		g.links["leader"].Set(lockstest.Fault{Hang: true})
		g.links["last"].Set(lockstest.Fault{Delay: 20 * time.Millisecond})
		term, took := g.takenOver()
		if term.Zone != "zd" || took < lease {
			t.Errorf("%s leads in %s, after %v", term.Holder, term.Zone, took)
		}
		if n := g.claims.Load(); n > 3 {
			t.Errorf("%d tried to take the lock", n)
		}
	})
}
