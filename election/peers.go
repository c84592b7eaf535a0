// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/locks"
)

// watchPeers starts Config.WatchPeers, if there is one.
func (r *run) watchPeers(ctx context.Context) {
	if r.config.WatchPeers == nil {
		return
	}
	r.peerUpdates = make(chan []locks.Peer, 1)
	note := latestTo(r.peerUpdates)
	tell := func(peers []locks.Peer) {
		if ctx.Err() == nil { // it may outlive Run
			note(peers)
		}
	}
	r.background.Go(func() { r.config.WatchPeers(ctx, tell) })
}

// setPeers notes who campaigns, in a new slice that never changes.
func (r *run) setPeers(peers []locks.Peer) {
	r.peers = slices.SortedFunc(slices.Values(peers), func(a, b locks.Peer) int { return cmp.Compare(a.Identity, b.Identity) })
	r.trusted = r.peers
	if doubtful := func(p locks.Peer) bool { return p.Doubtful }; slices.ContainsFunc(r.peers, doubtful) {
		r.trusted = slices.DeleteFunc(slices.Clone(r.peers), doubtful)
	}
	r.report.peers(r.peers)
}

// takeover returns what decides the takeover delay of this candidate, or of another one that is
// put in its place.
func (r *run) takeover(f rules.Freeing) Takeover {
	return Takeover{
		Lock:         r.config.Lock.Describe(),
		Cause:        f.Cause,
		Previous:     f.Holder,
		PreviousZone: f.Details.Zone,
		PreviousPod:  f.Details.Pod,
		Candidate:    r.config.Candidate,
		Peers:        r.trusted,
		Evacuated:    rules.Evacuated(r.observer.LastRecord().Evacuated, time.Now()),
		RoundTrip:    r.exchange.roundTrip(),
	}
}

// takeoverDelay is how long the candidate of a takeover leaves the free lock to others.
func (r *run) takeoverDelay(t Takeover) time.Duration {
	if r.config.TakeoverDelay == nil {
		return t.Spread(r.config.Timing)
	}
	return max(0, r.config.TakeoverDelay(t))
}

// sooner returns a function that compares candidates by who comes first at a takeover: those that
// somebody may have made up come last. It asks for each takeover delay once.
func (r *run) sooner(t Takeover) func(a, b locks.Peer) int {
	starts := map[string]time.Duration{}
	start := func(p locks.Peer) time.Duration {
		delay, known := starts[p.Identity]
		if !known {
			t.Candidate = p.Candidate
			delay = r.takeoverDelay(t)
			starts[p.Identity] = delay
		}
		return delay
	}
	return func(a, b locks.Peer) int {
		if a.Doubtful != b.Doubtful {
			return map[bool]int{false: -1, true: 1}[a.Doubtful]
		}
		return cmp.Or(cmp.Compare(start(a), start(b)), cmp.Compare(a.Identity, b.Identity))
	}
}
