// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// watchPeers begins to listen to who else campaigns, if anybody tells.
func (r *run) watchPeers(ctx context.Context) {
	if r.config.Peers == nil {
		return
	}
	r.met = make(chan []locks.Peer, 1)
	tell := latestTo(r.met)
	r.beside.Go(func() { r.config.Peers(ctx, tell) })
}

// meet takes in who campaigns, as a new slice that never changes.
func (r *run) meet(peers []locks.Peer) {
	r.peers = slices.SortedFunc(slices.Values(peers), func(a, b locks.Peer) int { return cmp.Compare(a.Identity, b.Identity) })
}

// takeover is what the head start of this candidate is decided by, or that of
// another in its place.
func (r *run) takeover(f freeing) Takeover {
	return Takeover{
		Lock:         r.config.Lock.Describe(),
		Cause:        f.cause,
		Previous:     f.holder,
		PreviousZone: f.details.Zone,
		PreviousPod:  f.details.Pod,
		Candidate:    r.config.Candidate,
		Peers:        r.peers,
		Evacuated:    evacuated(r.judge.renewal.Evacuated, time.Now()),
		RoundTrip:    r.roundTrip(),
	}
}

// headStart is how long this candidate leaves a free lock to others.
func (r *run) headStart(f freeing) time.Duration {
	return r.headStartOf(r.takeover(f))
}

func (r *run) headStartOf(t Takeover) time.Duration {
	if r.config.HeadStart == nil {
		return r.config.Timing.Spread(t)
	}
	return max(0, r.config.HeadStart(t))
}

// sooner compares candidates by who comes first at a takeover. It asks for the
// head start of each once.
func (r *run) sooner(t Takeover) func(a, b locks.Peer) int {
	starts := map[string]time.Duration{}
	start := func(p locks.Peer) time.Duration {
		delay, known := starts[p.Identity]
		if !known {
			t.Candidate = p.Candidate
			delay = r.headStartOf(t)
			starts[p.Identity] = delay
		}
		return delay
	}
	return func(a, b locks.Peer) int {
		return cmp.Or(cmp.Compare(start(a), start(b)), cmp.Compare(a.Identity, b.Identity))
	}
}
