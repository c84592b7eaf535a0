// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
)

const (
	// unknownCrowd is how many candidates Spread plans for if their number is not known.
	unknownCrowd = 500
	// fewPeers is how many candidates may act at the same moment.
	fewPeers = 20
)

// watch starts Config.WatchPeers, Config.WatchZone and the health check.
func (r *run) watch(ctx context.Context) {
	r.peerUpdates = watched(ctx, r, r.config.WatchPeers)
	r.zoneUpdates = watched(ctx, r, r.config.WatchZone)
	if health := r.config.Health; health.Check != nil {
		r.healthUpdates = watched(ctx, r, health.watch)
	}
	r.fitness.known = r.healthUpdates == nil
}

// watched starts a function of Config or the health check, and returns what gets its latest report; nil if there is no
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
	r.telemetry.know(r.peers)
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
	for i, p := range some {
		t.Candidate = p.Candidate
		if delay := r.takeoverDelay(t); i == 0 || delay < least { // each is computed once: an order ranks all candidates for it
			identity, least = p.Identity, delay
		}
	}
	return identity
}

// Spread is the default takeover delay. It keeps candidates that learn at the same instant
// that a lock is free from writing at that instant. It is pure, and zero for a candidate
// that knows that it is the only one.
//
// Its length follows from a hash of the identity and the lock. Few candidates of a crowd
// get a short takeover delay, and many a long one, so the number that have begun grows
// exponentially. Whether there are three or 500 candidates, the first few write, and the
// others see that the lock is taken. Multicast receivers of unknown number avoid
// answering all at once in the same way (RFC 5740, 5.2.2).
//
// The spread is at most 0.13 x RenewInterval. If requests are slow it is longer, up to
// two RenewIntervals: the first write has to be seen before many others go.
func (o Takeover) Spread(t Timing) time.Duration {
	t = t.WithDefaults()
	others := float64(unknownCrowd)
	if len(o.Peers) > 0 {
		others = float64(len(o.Peers) - 1)
	}
	least := t.RenewInterval / 50 // the time in which their number grows e-fold
	growth := max(least, min(7*o.RoundTrip, least*13/8), 3*o.RoundTrip)
	growth = min(growth, t.RenewInterval*2/7)
	return time.Duration(float64(growth) * math.Log1p(rules.Share(o.Lock, o.Candidate.Identity)*others))
}

// stagger is how much later than the first candidate this one sends a request that all have
// a reason to send at the same moment, because the holder fell silent, or their watches or
// requests failed. start is the takeover delay of this candidate.
func (r *run) stagger(start time.Duration) time.Duration {
	if start <= 0 || 0 < len(r.peers) && len(r.peers) <= fewPeers {
		return 0
	}
	return time.Duration(r.share * float64(r.config.Timing.RenewInterval) / 2)
}

// currentStagger is this candidate's stagger at this moment.
func (r *run) currentStagger() time.Duration {
	free, delay, known := r.free()
	if !known {
		delay = r.takeoverDelay(r.takeover(free))
	}
	return r.stagger(delay)
}

// pauses are growing delays. Each is multiplied by a factor from 0.5 to 1.5 that depends on
// the candidate and on how many pauses came before. The same candidate always gets the same
// pauses.
type pauses struct {
	growing *backoff.ExponentialBackOff
	share   float64
}

// newPauses returns pauses that grow from a tenth of a RenewInterval to most, without end.
func (r *run) newPauses(most time.Duration) *pauses {
	return &pauses{retries(r.config.Timing.RenewInterval/10, most), r.share}
}

func (p *pauses) next() time.Duration {
	pause := time.Duration(float64(p.growing.NextBackOff()) * (0.5 + p.share))
	_, p.share = math.Modf(p.share + 1/math.Phi) // the pauses of one candidate spread as evenly as those of a crowd
	return pause
}

func (p *pauses) reset() { p.growing.Reset() }

// retries returns delays that grow from first to most, without end and without randomness.
func retries(first, most time.Duration) *backoff.ExponentialBackOff {
	delays := sleep.Delays(first, most)
	delays.RandomizationFactor = 0
	return delays
}

// spacing is the least time between two writes that may both have landed.
func spacing(t Timing) time.Duration { return min(t.RenewInterval, time.Second) }
