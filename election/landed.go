// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"slices"
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/locks"
)

// sentWrites are this candidate's own writes whose answers are still to come, or were lost,
// oldest first. A read that finds the record of one shows that it landed, which is
// as good as its answer. Trust counts from when it was sent in any case (S1).
type sentWrites []request

// mostWrites is how many writes are kept. The oldest is worth the least.
const mostWrites = 8

// add notes a write that is sent now.
func (w *sentWrites) add(write request) {
	if len(*w) == mostWrites {
		*w = (*w)[1:]
	}
	*w = append(*w, write)
}

// landed returns the write whose record is in s. If two look alike, it returns the one that
// was sent first.
func (w sentWrites) landed(s locks.Snapshot) (request, bool) {
	if s.Version.Exists() && !s.Partial {
		for _, write := range w {
			if s.Record.SameRenewal(write.record) && s.Record.Details.Nonce == write.record.Details.Nonce {
				return write, true
			}
		}
	}
	return request{}, false
}

// acquiredBy reports whether one of the writes is an acquisition that a record is of, and that
// has not led to a term.
func (w sentWrites) acquiredBy(r locks.Record) bool {
	return r.Holder != "" && r.Details.Token == 0 && slices.ContainsFunc(w, func(write request) bool {
		return write.op == opAcquire && write.record.Holder == r.Holder && write.record.Details.Nonce == r.Details.Nonce &&
			write.record.AcquireTime.UnixMicro() == r.AcquireTime.UnixMicro()
	})
}

// readShows reports whether a read itself has shown the newest known version. What only a
// watch has shown confirms nothing (S6).
func (r *run) readShows(a answer) bool {
	return a.err == nil && a.snapshot.Version.Number == r.observer.Newest().Version.Number
}

// pending reports whether the write that a answers is still kept. If not, something newer
// is known.
func (w sentWrites) pending(a answer) bool {
	return slices.ContainsFunc(w, func(write request) bool { return write.op == a.op && write.sent == a.sent })
}

// drop forgets the write of a flight, which has not landed and will not.
func (w *sentWrites) drop(f *flight) {
	*w = slices.DeleteFunc(*w, func(write request) bool { return write.sent == f.sent })
}

// after returns the writes that were sent after then.
func (w sentWrites) after(then moment) sentWrites {
	for len(w) > 0 && w[0].sent.since(then) <= 0 {
		w = w[1:]
	}
	return w
}

// open returns the writes that may still land.
func (w sentWrites) open(newest locks.Snapshot) sentWrites {
	return slices.DeleteFunc(slices.Clone(w), func(write request) bool { return write.isSuperseded(newest) })
}

// landed is the answer that the lock would have given to a write which was seen to have
// landed.
func (w request) landed(s locks.Snapshot, now time.Time) answer {
	return answer{request: w, departed: w.sent, snapshot: s, end: now}
}

// shown is what the read that was sent last has shown, of those that have been answered.
type shown struct {
	number uint64 // of the version; zero if that cannot date a landing
	sent   moment
}

// note notes the answer to a read.
func (s *shown) note(read answer) {
	if s.sent.awake.IsZero() || read.sent.since(s.sent) > 0 {
		*s = shown{sent: read.sent}
		if v := read.snapshot; v.Version.Exists() && !v.Kept && !v.Partial {
			s.number = v.Version.Number
		}
	}
}

// trustedFrom is when trust in an acknowledged write begins (S1): when it was sent, or when a
// read was sent that still showed the version that the write then replaced. Reads are
// linearizable, so the write landed after that, and nobody saw it before.
func (r *run) trustedFrom(a answer) moment {
	if a.base.Exists() && r.observer.Exact() && r.shown.number == a.base.Number && r.shown.sent.since(a.departed) > 0 {
		return r.shown.sent
	}
	return a.departed
}

// fitsTwice is how long an answer may take so that two of them fit into a RenewDeadline. A renewal that
// is due goes out with the answer to the last.
func fitsTwice(t Timing) time.Duration { return (t.RenewDeadline - t.AttemptTimeout/2) / 2 }

// askWhen is when a read should show whether the writes under way have landed, so that once the
// first of them is acknowledged, its trust covers another one that takes as long. If two answers
// fit into a RenewDeadline, no read is needed.
func (r *run) askWhen(now time.Time) time.Time {
	t, never := r.config.Timing, now.Add(rules.Longest)
	i := slices.IndexFunc(r.requester.flights, func(f *flight) bool { return f.writes() && !f.lost && f.base.Exists() })
	if i < 0 || !r.observer.Exact() || r.observer.Newest().Kept {
		return never
	}
	first := r.requester.flights[i]
	sent, from, least := first.sent.awake, first.sent.awake, first.sent.awake
	switch {
	case !r.shown.sent.awake.After(sent): // no read was sent since
	case r.shown.number != first.base.Number:
		return never // another write has landed
	default:
		from = r.shown.sent.awake
		least = from.Add(t.AttemptTimeout / 2)
	}
	return rules.Latest(least, sent.Add(fitsTwice(t)+from.Sub(sent)/2))
}
