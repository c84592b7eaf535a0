// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"slices"
	"sync"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks"
)

// Cached returns a function that gives the same head starts as o.HeadStart. It
// ranks the candidates once for each takeover, and not once for each candidate
// that an elector asks about: use it where there may be dozens. It is safe for
// concurrent use, and keeps the last ranking in memory.
//
// It takes the same slice of Peers for the same peers. So their elements must not
// change once they were passed: an elector passes a new slice for each change.
func (o Order) Cached() func(election.Takeover) time.Duration {
	c := &cache{order: o}
	return c.headStart
}

// cache is the ranking for one takeover, for whichever candidate.
type cache struct {
	order Order

	mu     sync.Mutex
	of     election.Takeover
	delays map[string]time.Duration // by identity
}

func (c *cache) headStart(t election.Takeover) time.Duration {
	if len(t.Peers) > 0 && t.Candidate.Identity != t.Previous { // else it has a place of its own
		if delay, known := c.lookUp(t); known {
			return delay
		}
	}
	return c.order.HeadStart(t)
}

// lookUp returns the delay of the candidate, if that is among the peers.
func (c *cache) lookUp(t election.Takeover) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.delays == nil || !sameRanking(t, c.of) {
		c.of, c.delays = t, c.order.rank(t)
	}
	delay, known := c.delays[t.Candidate.Identity]
	return delay, known
}

// rank returns the delays of all peers but the previous holder.
func (o Order) rank(t election.Takeover) map[string]time.Duration {
	t.Candidate = locks.Candidate{}
	queue := o.queue(t)
	ranked := make(map[string]time.Duration, len(queue))
	for i, delay := range delays(queue, o.Timing.WithDefaults()) {
		ranked[queue[i].identity] = delay
	}
	return ranked
}

// sameRanking reports whether all that a ranking is made of is the same.
func sameRanking(a, b election.Takeover) bool {
	return a.Lock == b.Lock && a.Cause == b.Cause &&
		a.Previous == b.Previous && a.PreviousZone == b.PreviousZone && a.PreviousPod == b.PreviousPod &&
		samePeers(a.Peers, b.Peers) && slices.Equal(a.Evacuated, b.Evacuated)
}

// samePeers reports whether both are one slice. To compare their elements for each
// candidate would cost as much as to rank them again.
func samePeers(a, b []locks.Peer) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
