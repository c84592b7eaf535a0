// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
)

// Order says which candidate goes first when a lock is free. The zero value has no
// preference, and the default timing. It is a value, safe for concurrent use.
type Order struct {
	// Preferred are the zones that should have the leader, most wanted first.
	Preferred []string
	// Timing is that of the election. Zero fields have its defaults.
	Timing election.Timing
}

// TakeoverDelay is how long a candidate leaves a free lock to the candidates before it, for
// election.Config.TakeoverDelay. It is pure. Candidates that know the same peers get delays that
// differ by a slot or more, a tenth of a RenewInterval; the first delay is zero:
//
//  1. A healthy candidate goes before an unhealthy one.
//  2. A candidate in an evacuated zone waits for about LeaseDuration, so that it
//     leads only if no candidate outside does. One whose zone is unknown may be in
//     there: while any zone is evacuated, it comes after those that are outside.
//  3. The zone of a holder that fell silent comes after the others, because it
//     may have failed. The zone of one that gave the lock up or is proven dead does not.
//  4. Preferred zones come in their order, before others and unknown ones.
//  5. A candidate that has the proof of the holder's death goes before its equals, which
//     do not know of it.
//  6. Candidates equal in all that go by a hash of identity and lock, so
//     that the locks of a program with many are spread over its replicas.
//
// The previous holder comes last. Between two groups of equal candidates there is a step, a
// RenewInterval. So known candidates that are dead delay a takeover by at most a slot for each and a
// step for each group of them that goes before the first living one, and never by more than
// LeaseDuration.
//
// A candidate that knows no peers assumes that all zones have candidates. It waits a step for
// each preferred zone before its own, or for all of them and one more in the zone of a silent
// holder, or for LeaseDuration less two steps in an evacuated one. It adds its
// election.Takeover.Spread, so that a crowd does not go at the same instant.
func (o Order) TakeoverDelay(t election.Takeover) time.Duration {
	if len(t.Peers) == 0 {
		return o.unaware(t)
	}
	queue := o.queue(t)
	i := slices.IndexFunc(queue, func(p place) bool { return p.identity == t.Candidate.Identity })
	if i < 0 {
		return o.Timing.WithDefaults().LeaseDuration // not reached: a candidate with an identity is in the queue
	}
	return o.delays(queue)[i]
}

// step is the takeover delay of one group of equally preferred candidates over the next: a
// RenewInterval. A candidate whose connection has died sees the last renewal up to half of that
// and a request later than others, and still goes first.
func (o Order) step() time.Duration { return o.Timing.WithDefaults().RenewInterval }

// slot is the takeover delay of one candidate over the next in its group: a tenth of a
// RenewInterval, in which the others learn of a takeover. It is shorter if there are so many
// candidates that the last would wait for longer than the lease.
func (o Order) slot() time.Duration { return o.Timing.WithDefaults().RenewInterval / 10 }

// delays returns how long each candidate of a queue leaves the lock to those before it.
func (o Order) delays(queue []place) []time.Duration {
	slot, step, lease := o.slot(), o.step(), o.Timing.WithDefaults().LeaseDuration
	all := make([]time.Duration, 0, len(queue))
	// If there are too many candidates for that, those at the front keep their slot.
	least := min(slot, lease/time.Duration(2*max(1, len(queue))))
	var delay, steps time.Duration
	for i, p := range queue {
		if i > 0 {
			delay += slot
			if p.group != queue[i-1].group {
				steps += step
			}
		}
		delay = max(delay, steps)
		if p.evacuated && !queue[0].evacuated {
			delay = max(delay, lease)
		}
		behind := time.Duration(len(queue) - 1 - i)
		all = append(all, min(delay, lease-behind*least))
	}
	return all
}

func (o Order) unaware(t election.Takeover) time.Duration {
	timing := o.Timing.WithDefaults()
	last := max(0, timing.LeaseDuration-2*o.step()) // a Spread is shorter than that
	wait := min(time.Duration(o.standing(t.Candidate.Zone, t))*o.step(), last)
	if evacuated(t.Candidate.Zone, t) {
		wait = last
	}
	return min(wait+t.Spread(timing), timing.LeaseDuration)
}

// place is a candidate's place in the queue.
type place struct {
	identity  string
	group     int // the lower the earlier; equals have the same
	hash      uint64
	evacuated bool
}

// queue returns all known candidates, in the order in which they go.
func (o Order) queue(t election.Takeover) []place {
	var queue []place
	known := map[string]bool{"": true}
	for _, p := range append(slices.Clone(t.Peers), locks.Peer{Candidate: t.Candidate}) {
		if !known[p.Identity] && (p.Identity != t.Previous || p.Identity == t.Candidate.Identity) {
			known[p.Identity] = true
			queue = append(queue, o.place(p, t))
		}
	}
	slices.SortFunc(queue, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.hash, b.hash), cmp.Compare(a.identity, b.identity))
	})
	return queue
}

func (o Order) place(p locks.Peer, t election.Takeover) place {
	at := place{identity: p.Identity, hash: hash(p.Identity, t.Lock), evacuated: evacuated(p.Zone, t)}
	if t.Cause == status.CauseDied && p.Identity == t.Candidate.Identity {
		at.hash = 0
	}
	unsure := p.Zone == "" && len(t.Evacuated) > 0
	for _, last := range []bool{p.Identity == t.Previous, p.Unhealthy != "", at.evacuated, unsure} {
		at.group *= 2
		if last {
			at.group++
		}
	}
	at.group = at.group*(len(o.Preferred)+2) + o.standing(p.Zone, t)
	return at
}

func hash(identity string, lock locks.Description) uint64 {
	sum := sha256.Sum256([]byte(lock.String() + "\x00" + identity))
	return binary.BigEndian.Uint64(sum[:])
}

// standing is the rank of a zone: the preferred ones in their order, then the others, then
// that of a holder that fell silent.
func (o Order) standing(zone string, t election.Takeover) int {
	i := slices.Index(o.Preferred, zone)
	switch {
	case zone == "":
		return len(o.Preferred)
	case zone == t.PreviousZone && silent(t.Cause):
		return len(o.Preferred) + 1
	case i < 0:
		return len(o.Preferred)
	}
	return i
}

func evacuated(zone string, t election.Takeover) bool {
	return zone != "" && slices.Contains(t.Evacuated, zone)
}

// silent reports whether a holder was no longer heard.
func silent(c status.Cause) bool {
	return c == status.CauseExpired || c == status.CauseDeleted || c == status.CauseCleared
}
