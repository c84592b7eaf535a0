// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/requests"
	"github.com/zonelect/zonelect/locks"
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
			r.Evacuated = requests.FormatEvacuations([]requests.Evacuation{{Zone: "past", Until: time.Now()}, {Zone: "za", Until: over}, {Zone: "zb"}})
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
