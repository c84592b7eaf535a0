// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"errors"
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/locks"
)

// If the API server is slow, the answer to a renewal may come so late that the answer to
// the next one, which replaces the version in that answer, comes too late. The elector then
// sends amendments instead: each amends the record of the write before it, without waiting
// for the answer to that write. Each amends only that one record, so amendments land in
// order, each once or not at all.

// mostAmendments is how many amendments may be under way.
const mostAmendments = 12

// mostFailures is how many times in a row amendments of renewals may fail before no more
// are sent. Something then changes what is written, or reorders it.
const mostFailures = 3

// fitsTwice is how long an answer may take so that two of them fit into a RenewDeadline. A renewal that
// is due goes out with the answer to the last.
func fitsTwice(t Timing) time.Duration { return (t.RenewDeadline - t.AttemptTimeout/2) / 2 }

// amendEvery is how long after a write the next one amends it, if the answer has not come.
// It is zero if no amendment should be sent, because two answers fit into a RenewDeadline,
// the server is silent rather than slow, or an amendment has failed.
func (c *requester) amendEvery(t Timing, now time.Time) time.Duration {
	last := c.newest
	if c.amender == nil || c.chainBroken || last == nil || last.op == opRead || last.record.Details.Waits != "" {
		return 0
	}
	slowest := max(c.slowest, now.Sub(last.sent.awake)) // this answer may take longer than any before
	switch {
	case slowest < fitsTwice(t):
		return 0
	case now.Sub(rules.Latest(c.heard, c.flights[0].sent.awake)) > c.slowest*3/2, c.amendments() >= mostAmendments:
		return 0
	}
	return max(spacing(t), min(t.RenewInterval, (t.RenewDeadline-slowest)*2/3))
}

// amendments is how many of those under way are amendments.
func (c *requester) amendments() (n int) {
	for _, f := range c.flights {
		if f.amends() {
			n++
		}
	}
	return n
}

// checkChain notes what an answer says about the chain: the last write that replaced a
// version, and the amendments after it. If one write of the chain has not landed, no later
// one lands. The loop then waits for none of the later ones and sends no more. checkChain
// reports whether the answer is that of the first amendment that has not landed.
func (c *requester) checkChain(a answer) (first bool) {
	c.amendmentsFlow = a.amends() && a.err == nil || a.op == opRead && c.amendmentsFlow
	switch {
	case a.op == opRead, c.chainBroken, a.sent.awake.Before(c.chainStart):
	case a.refused():
		first = true
		if c.failures++; a.op == opAcquire { // another candidate was faster
			c.failures = 0
		}
		if c.failures == mostFailures || !errors.Is(a.err, locks.ErrConflict) {
			c.amender = nil
		}
	case a.amends() && a.err == nil:
		c.failures = 0
	}
	if first || !a.amends() && a.conflict() {
		c.chainBroken = true
		if c.newest != nil && c.newest.amends() {
			c.newest = nil
		}
	}
	return first
}

// refused reports whether an amendment has not landed, and will not.
func (a answer) refused() bool {
	return a.amends() && (a.conflict() || errors.Is(a.err, locks.ErrForbidden) || errors.Is(a.err, locks.ErrNoAPI))
}
