// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package zone_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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

// crowd is a leader in za and many followers, by default in three zones, whose requests are counted.
type crowd struct {
	*electiontest.Stage
	order     zone.Order
	lock      *memory.Lock
	peers     []locks.Peer
	links     map[string]*lockstest.Faulty
	leader    *electiontest.Seat
	followers []*electiontest.Seat

	mu    sync.Mutex
	asked map[string][]time.Time // "read", "watch" and "claim"
	cut   chan struct{}          // closed when all watches fail
}

// newCrowd makes the candidates. They know each other, or nobody. Then the order of every other one is the elector's own.
func newCrowd(s *electiontest.Stage, order zone.Order, known bool, followers ...string) *crowd {
	g := &crowd{Stage: s, order: order, lock: memory.New("lock"), cut: make(chan struct{})}
	g.links, g.asked = map[string]*lockstest.Faulty{}, map[string][]time.Time{}
	g.peers = peers(append([]string{"leader@za"}, followers...)...)
	for i, p := range g.peers {
		c := election.Config{Candidate: p.Candidate, TakeoverDelay: order.TakeoverDelay}
		distance := 10 * time.Millisecond
		if known {
			c.WatchPeers = func(ctx context.Context, tell func([]locks.Peer)) { tell(g.peers); <-ctx.Done() }
			distance = time.Duration(1+i%20) * time.Millisecond
		} else if i%2 == 0 {
			c.TakeoverDelay = nil
		}
		link := lockstest.NewFaulty(counted{g.lock, g})
		link.Set(lockstest.Fault{Delay: distance})
		g.links[p.Identity] = link
		c.Lock = far{link, distance}
		if seat := s.Seat(c); i == 0 {
			g.leader = seat
		} else {
			g.followers = append(g.followers, seat)
		}
	}
	return g
}

// followers are n candidates in three zones.
func followers(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("c%03d@z%c", i, "abc"[i%3]))
	}
	return all
}

// fifty are followers in three zones, and one in zd.
func fifty() []string { return append(followers(49), "last@zd") }

// settle makes the leader lead and the others follow, and forgets what was asked for.
func (g *crowd) settle() {
	g.leader.Start()
	g.leader.Leads()
	g.enter()
	time.Sleep(3*step + step/2)
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.asked)
}

func (g *crowd) enter() {
	for _, f := range g.followers {
		f.Start()
	}
}

func (g *crowd) silence() { g.links["leader"].Set(lockstest.Fault{Hang: true}) }

func (g *crowd) count(kind string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked[kind] = append(g.asked[kind], time.Now())
}

// most is how many requests of a kind came within such a span.
func (g *crowd) most(kind string, span time.Duration) (most int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := 0
	for i, at := range g.asked[kind] {
		for at.Sub(g.asked[kind][first]) >= span {
			first++
		}
		most = max(most, i+1-first)
	}
	return most
}

// takenOver waits for the next leader, and for attempts of others meanwhile.
func (g *crowd) takenOver() (election.Term, time.Duration) {
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

// counted is a lock whose requests are counted, and whose watches fail when the crowd is cut off.
type counted struct {
	locks.Lock
	by *crowd
}

func (c counted) Read(ctx context.Context) (locks.Snapshot, error) {
	c.by.count("read")
	return c.Lock.Read(ctx)
}

func (c counted) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	if r.Holder != "" && r.Details.Token == 0 {
		c.by.count("claim")
	}
	return c.Lock.Write(ctx, base, r)
}

func (c counted) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	c.by.count("watch")
	ctx, end := context.WithCancel(ctx)
	defer end()
	ended := make(chan error, 1)
	go func() { ended <- c.Lock.Watch(ctx, from, events) }()
	select {
	case err := <-ended:
		return err
	case <-c.by.cut:
		end()
		<-ended
		return errors.New("the API server shuts down")
	}
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

func TestOfFiftyFollowersThreeAtMostWriteAtATakeover(t *testing.T) {
	for name, free := range map[string]struct {
		cause status.Cause
		by    func(*crowd)
		after time.Duration // how long until the lock is free
	}{
		"expiry":   {status.CauseExpired, (*crowd).silence, lease},
		"release":  {status.CauseReleased, func(g *crowd) { g.leader.Stop() }, 0},
		"deletion": {status.CauseDeleted, func(g *crowd) { g.silence(); g.lock.Delete() }, lease},
	} {
		for _, dead := range []int{0, 5} {
			t.Run(fmt.Sprint(name, ", ", dead, " dead"), func(t *testing.T) {
				electiontest.Scenario(t, func(s *electiontest.Stage) {
					g := newCrowd(s, zone.Order{}, true, fifty()...)
					g.settle()
					over := election.Takeover{Cause: free.cause, Previous: "leader", PreviousZone: "za", Peers: g.peers}
					delay := func(p locks.Peer) time.Duration {
						over.Candidate = p.Candidate
						return g.order.TakeoverDelay(over)
					}
					first := slices.SortedFunc(slices.Values(g.peers), func(a, b locks.Peer) int { return int(delay(a) - delay(b)) })
					for _, p := range first[:dead] {
						g.links[p.Identity].Set(lockstest.Fault{Hang: true})
					}
					free.by(g)
					term, took := g.takenOver()
					if term.Cause != free.cause {
						t.Errorf("the lock was %s", term.Cause)
					}
					if free.cause != status.CauseReleased && term.Zone == "za" {
						t.Errorf("%s leads, from the zone that fell silent", term.Holder)
					}
					if n := g.most("claim", time.Hour); n == 0 || n > 3 {
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
		g := newCrowd(s, zone.Order{Preferred: []string{"zd"}}, true, fifty()...)
		g.settle()
		g.links["last"].Set(lockstest.Fault{Mute: true}) // its connection dies
		time.Sleep(step)                                 // a renewal that it does not see
		g.silence()
		g.links["last"].Set(lockstest.Fault{Delay: 20 * time.Millisecond})
		term, took := g.takenOver()
		if term.Zone != "zd" || took < lease {
			t.Errorf("%s leads in %s, after %v", term.Holder, term.Zone, took)
		}
		if n := g.most("claim", time.Hour); n > 3 {
			t.Errorf("%d tried to take the lock", n)
		}
	})
}

func TestAtMostFiveOfFiveHundredWriteInTheFirstSecondThoughNoneKnowsTheOthers(t *testing.T) {
	for name, free := range map[string]func(*crowd){
		"cold start": (*crowd).enter,
		"release":    func(g *crowd) { g.settle(); g.leader.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			electiontest.Scenario(t, func(s *electiontest.Stage) {
				g := newCrowd(s, zone.Order{}, false, followers(500)...)
				free(g)
				g.takenOver()
				if n := g.most("claim", time.Second); n > 5 {
					t.Errorf("%d tried to take the lock", n)
				}
			})
		})
	}
}

// TestACrowdDoesNothingAtOneInstant when the lease runs out, or when all watches fail.
func TestACrowdDoesNothingAtOneInstant(t *testing.T) {
	for name, happens := range map[string]func(*crowd){
		"expiry":       func(g *crowd) { g.silence(); g.takenOver() },
		"watches fail": func(g *crowd) { close(g.cut); time.Sleep(2 * lease) },
	} {
		t.Run(name, func(t *testing.T) {
			electiontest.Scenario(t, func(s *electiontest.Stage) {
				g := newCrowd(s, zone.Order{}, false, followers(500)...)
				g.settle()
				happens(g)
				for _, kind := range []string{"read", "watch", "claim"} {
					if n := g.most(kind, 10*time.Millisecond); n > 30 { // 19 as a rule, of 500; retries are at random
						t.Errorf("in 10 ms %d times: %s", n, kind)
					}
				}
			})
		})
	}
}
