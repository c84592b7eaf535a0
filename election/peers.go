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

// watchPeers starts Config.WatchPeers and Config.WatchZone.
func (r *run) watchPeers(ctx context.Context) {
	r.peerUpdates = watched(ctx, r, r.config.WatchPeers)
	r.zoneUpdates = watched(ctx, r, r.config.WatchZone)
}

// watched starts a function of Config, and returns what gets its latest report; nil if there is no
// such function.
func watched[T any](ctx context.Context, r *run, watch func(context.Context, func(T))) chan T {
	if watch == nil {
		return nil
	}
	updates := make(chan T, 1)
	note := latestTo(updates)
	r.background.Go(func() {
		watch(ctx, func(report T) {
			if ctx.Err() == nil { // it may outlive Run
				note(report)
			}
		})
	})
	return updates
}

// setPeers notes who campaigns, in a new slice that never changes.
func (r *run) setPeers(peers []locks.Peer) {
	r.peers = slices.SortedFunc(slices.Values(peers), func(a, b locks.Peer) int { return cmp.Compare(a.Identity, b.Identity) })
	r.meters.know(r.peers)
}

// takeover returns what decides the takeover delay of this candidate, or of another one that is
// put in its place.
func (r *run) takeover(f rules.Freeing) Takeover {
	return Takeover{
		Lock:         r.config.Lock.Describe(),
		Cause:        f.Cause,
		Previous:     f.Holder,
		PreviousZone: f.Details.Zone,
		Candidate:    r.me,
		Peers:        r.peers,
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

// first returns which of some candidates, sorted by identity, comes first at a takeover.
func (r *run) first(some []locks.Peer, t Takeover) (identity string) {
	var least time.Duration
	for _, p := range some {
		t.Candidate = p.Candidate
		if delay := r.takeoverDelay(t); identity == "" || delay < least {
			identity, least = p.Identity, delay
		}
	}
	return identity
}
