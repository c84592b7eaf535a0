// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/internal/requests"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

func peer(identity string) locks.Peer {
	return locks.Peer{Candidate: locks.Candidate{Identity: identity, Zone: "z-" + identity}}
}

// informed tells a candidate its peers, which words describe.
func informed(words chan []locks.Peer) func(*election.Config) {
	return func(c *election.Config) {
		c.WatchPeers = func(ctx context.Context, tell func([]locks.Peer)) {
			for {
				select {
				case peers := <-words:
					tell(peers)
				case <-ctx.Done():
					return
				}
			}
		}
	}
}

// TestATakeoverDelayKnowsTheLatestPeersAndTheEvacuatedZones, also from several goroutines after WatchPeers has returned,
// and what is told after the end of Run does nothing.
func TestATakeoverDelayKnowsTheLatestPeersAndTheEvacuatedZones(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		var report func([]locks.Peer)
		var asked election.Takeover
		b := s.start("b", func(c *election.Config) {
			c.WatchPeers = func(_ context.Context, tell func([]locks.Peer)) { report = tell }
			c.TakeoverDelay = func(o election.Takeover) time.Duration { asked = o; return 0 }
		})
		report([]locks.Peer{peer("a")})
		var tellers sync.WaitGroup
		for range 20 {
			tellers.Go(func() { report([]locks.Peer{peer("c"), peer("a"), peer("b")}) })
		}
		tellers.Wait()
		over := time.Now().Add(time.Hour)
		s.write(func(r *locks.Record) {
			zones := []requests.Evacuation{{Zone: "past", Until: time.Now()}, {Zone: "za", Until: over}, {Zone: "zb"}}
			r.Evacuated = requests.FormatEvacuations(zones)
		})
		a.link.Set(cut)
		b.Leads()
		if want := []locks.Peer{peer("a"), peer("b"), peer("c")}; !reflect.DeepEqual(asked.Peers, want) {
			t.Errorf("takeover delay is asked for among %+v, want %+v", asked.Peers, want)
		}
		if want := []string{"za", "zb"}; !slices.Equal(asked.Evacuated, want) {
			t.Errorf("evacuated are %q, want %q", asked.Evacuated, want)
		}
		b.Stop()
		s.ends(b)
		for range 20 {
			tellers.Go(func() { report(nil) })
		}
		tellers.Wait()
	})
}

func TestEvacuatedZonesOutliveTermsAndTheRecord(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		s.write(func(r *locks.Record) { r.Evacuated = "za" })
		kept := func(when string) {
			time.Sleep(2 * interval)
			if got := s.record().Evacuated; got != "za" {
				t.Errorf("%s: evacuated is %q", when, got)
			}
		}
		kept("after a renewal")
		s.lock.Delete()
		kept("after a deletion")
		b := s.start("b")
		a.link.Set(cut)
		b.Leads()
		kept("after a takeover")
		c := s.start("c")
		b.link.Set(cut)
		s.lock.Delete()
		c.Leads()
		kept("after a takeover without a record")
		c.Stop()
		kept("after a release")
	})
}

// TestAZoneThatBecomesKnownDecidesTheTakeoverDelay from then on.
func TestAZoneThatBecomesKnownDecidesTheTakeoverDelay(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		zones := make(chan string, 1)
		b := s.start("b", func(c *election.Config) {
			c.Candidate.Zone = ""
			c.WatchZone = func(ctx context.Context, tell func(string)) {
				select {
				case z := <-zones:
					tell(z)
				case <-ctx.Done():
				}
			}
			c.TakeoverDelay = func(o election.Takeover) time.Duration {
				if o.Candidate.Zone == "z1" {
					return 0
				}
				return time.Hour
			}
		})
		time.Sleep(interval)
		a.Stop()
		time.Sleep(time.Minute)
		b.Idles()
		zones <- "z1"
		if term, took := b.Leads(); term.Zone != "z1" || term.Cause != status.CauseReleased || took > 0 {
			t.Errorf("it leads from zone %q after %v: %v", term.Zone, took, term.Cause)
		}
	})
}

// spreads are the spreads of candidates that know no peers, shortest first.
func spreads(lock, candidates int, trip time.Duration) []time.Duration {
	all := make([]time.Duration, candidates)
	for i := range all {
		all[i] = election.Takeover{
			Lock: locks.Description{Name: fmt.Sprint("lock-", lock)}, RoundTrip: trip,
			Candidate: locks.Candidate{Identity: fmt.Sprint("c", i)},
		}.Spread(election.Timing{})
	}
	slices.Sort(all)
	return all
}

func TestOfACrowdThatDoesNotKnowItselfFewGoBeforeTheyHearOfTheFirst(t *testing.T) {
	const locks = 300
	for _, net := range []struct{ trip, watch time.Duration }{
		{time.Millisecond, time.Millisecond}, {10 * time.Millisecond, 20 * time.Millisecond}, {200 * time.Millisecond, 200 * time.Millisecond},
	} {
		for _, candidates := range []int{3, 50, 500, 1000} {
			over, sum := 0, 0
			for lock := range locks {
				all := spreads(lock, candidates, net.trip)
				heard := all[0] + net.trip/2 + net.watch
				n, _ := slices.BinarySearch(all, heard+1)
				sum += n
				if n > 5 {
					over++
				}
			}
			if over > locks/12 || sum > 4*locks || net.trip < 100*time.Millisecond && over > locks/100 {
				average := float64(sum) / locks
				t.Errorf("of %d candidates %v away %.1f write, more than five for %d of %d locks", candidates, net, average, over, locks)
			}
		}
	}
}

func TestASpreadOfARenewIntervalOrTwoIsTheMostAndNobodyWaitsAlone(t *testing.T) {
	o := election.Takeover{RoundTrip: time.Minute}
	for i := range 1000 {
		o.Candidate.Identity = fmt.Sprint("c", i)
		if got := o.Spread(election.Timing{}); got <= 0 || got > 2*interval {
			t.Fatalf("%s waits %v", o.Candidate.Identity, got)
		}
	}
	o.Peers = []locks.Peer{{Candidate: o.Candidate}}
	if got := o.Spread(election.Timing{}); got != 0 {
		t.Errorf("a candidate that is alone waits %v", got)
	}
}

func TestAReadThatWaitedForEtcdsElectionIsNoRoundTrip(t *testing.T) {
	for takes := time.Second; takes < 3*time.Second; takes += 50 * time.Millisecond {
		scenario(t, func(s *stage) {
			a := s.leader("a", inSeconds)
			var trip atomic.Int64
			b := s.candidate("b", inSeconds, func(c *election.Config) {
				c.TakeoverDelay = func(t election.Takeover) time.Duration {
					trip.Store(int64(t.RoundTrip))
					return 0
				}
			})
			b.link.Set(lockstest.Fault{Delay: time.Millisecond})
			b.Start()
			time.Sleep(10 * time.Second)
			a.link.Set(cut)
			b.link.Set(lockstest.Fault{Hold: true})
			time.Sleep(takes)
			b.link.Set(lockstest.Fault{Delay: time.Millisecond})
			b.Leads()
			if got := time.Duration(trip.Load()); got > 10*time.Millisecond {
				t.Errorf("after an election of %v a round trip counts as %v", takes, got)
			}
		})
	}
}
