// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/transport"
	"github.com/zonelect/zonelect/test/kit/events"
)

// cost is what a fault takes from a group besides its main effect. It shows
// whether two simultaneous faults hinder each other's recovery.
type cost uint

const (
	// ofRequests: a leader's requests may hang or fail.
	ofRequests cost = 1 << iota
	// ofMember: etcd has one member less, or one that is too slow. Two such
	// members of three leave no quorum.
	ofMember
	// ofCandidate: one candidate less.
	ofCandidate
)

// bite is when the injection of a fault began, and when the fault had taken
// effect. Elects means that the fault took the zone of etcd's leader, so that
// etcd elects another.
type bite struct {
	Fault      string
	Began, Bit time.Time
	Elects     bool `json:",omitempty"`
}

// course is how the faults of a run went, as far as the promises to a group
// depend on it.
type course struct {
	plan  plan
	group string
	bites []bite
	// timings are those of the candidates, by their identity.
	timings map[string]election.Timing
	// answered is when the API answered again after an outage, and healed when
	// all was well.
	answered, healed time.Time
	// acks are the writes of all groups that were acknowledged.
	acks []events.Event
}

// gap is a time between two acknowledged writes. Within means that both are of
// one term, and released that the previous leader released the lease in it. By
// are the candidates that led before it, in it, and after it.
type gap struct {
	from, to         time.Time
	within, released bool
	by               []string
}

func (g gap) length() time.Duration { return g.to.Sub(g.from) }

// hit is the effect of one fault of a course on the group: a gap between two
// terms ends that long after from, or after the gap began if that is later.
type hit struct {
	promise
	fault     fault
	bit, from time.Time
}

// limit is the longest that a gap may be.
func (c course) limit(g gap) (most time.Duration) {
	for _, t := range c.timingsOf(g) {
		hits := c.hits(t, g.to)
		if g.within {
			most = max(most, c.withinATerm(hits, g))
		} else {
			most = max(most, betweenTerms(c.together(t, hits, g.released), g.from))
		}
	}
	return most
}

// timingsOf are the timings that a gap is judged by: those of its leaders, and
// where they differ, that of a candidate that waits for the other's lease. Where
// nobody led after it, they are all timings of the run.
func (c course) timingsOf(g gap) (all []election.Timing) {
	for _, one := range g.by {
		t, known := c.timings[one]
		if !known {
			return c.plan.timingsOf()
		}
		if !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	switch len(all) {
	case 0:
		return c.plan.timingsOf()
	case 1:
		return all
	}
	return append(all, longer(all[0], all[1]))
}

// withinATerm is how long a leader that keeps its term may not get a write
// through: the outage of the API, and one hanging write for each fault that
// lets requests hang when it is injected.
func (c course) withinATerm(hits []hit, g gap) time.Duration {
	most, hanging := busy, 0
	for _, h := range hits {
		most += c.stalled(h, g)
		if h.fault.costs&ofRequests != 0 && g.from.Before(h.bit.Add(2*hang)) {
			hanging++
		}
	}
	most += time.Duration(max(1, hanging)) * hang
	if len(hits) == 2 && both(hits[0], hits[1], ofRequests) {
		most += redials
	}
	if slices.ContainsFunc(hits, func(h hit) bool { return h.fault.costs&ofMember != 0 && h.fault.ends != boot }) {
		most += mostRedials * hang // a dial may reach a server whose etcd is gone, though not one without power
	}
	if _, to, away := c.outage(hits...); away {
		most += max(0, to.Sub(g.from))
	}
	return most
}

// stalled is how long a fault makes a leader wait, from the beginning of the gap.
// An election of etcd is over once any write that was sent after it began is
// acknowledged.
func (c course) stalled(h hit, g gap) time.Duration {
	if !h.fault.elects {
		return h.fault.stalls
	}
	over := c.healed
	for _, a := range c.acks {
		if a.Sent.After(h.bit) && a.Time.Before(over) {
			over = a.Time
		}
	}
	return min(h.fault.stalls, max(0, over.Sub(g.from)))
}

// redials is the extra time for a write whose connection is gone, where new dials
// may reach a dead server too: all four do so once in 81 times.
const (
	mostRedials = 3
	redials     = mostRedials * transport.DialIntervalDefault
)

// betweenTerms is how long nobody may lead. What is promised for a fault counts
// from when it bit, or from when the gap began if that is later. So the second
// fault may hit at the worst moment of the recovery from the first, and the
// recovery starts again. If a lease runs out and no request hangs, the next
// leader's first write does not hang either.
func betweenTerms(hits []hit, from time.Time) time.Duration {
	most, hanging, lease := slack, false, false
	for _, h := range hits {
		most = max(most, max(0, h.from.Sub(from))+h.gap)
		hanging = hanging || h.fault.costs&ofRequests != 0
		lease = lease || h.lease
	}
	if lease && !hanging {
		return most - hang
	}
	return most
}

// hits are the faults that had begun before a time, each as if it were the only
// one.
func (c course) hits(t election.Timing, before time.Time) (all []hit) {
	for i, b := range c.bites {
		if b.Began.Before(before) {
			all = append(all, c.hit(t, c.plan.Faults[i], b))
		}
	}
	return all
}

// together are the same hits, each with the other's effect on its recovery, and
// the outage that the two make together.
func (c course) together(t election.Timing, all []hit, released bool) []hit {
	if len(all) < 2 {
		return all
	}
	together := append(c.hindered(t, all[0], all[1], released), c.hindered(t, all[1], all[0], released)...)
	if from, to, away := c.outage(all...); away {
		together = append(together, hit{promise: promise{gap: outage(t, to.Sub(from)).gap}, from: to})
	}
	return together
}

// hit returns a fault as if it were the only one.
func (c course) hit(t election.Timing, f fault, b bite) hit {
	until := c.healed
	if f.away {
		until = c.answered
	}
	made := f.promiseIn(c.plan)
	if f.only != "" && f.only != c.group {
		f, made = fault{name: f.name}, untouched
	}
	h := hit{promise: made(t, max(0, until.Sub(b.Began))), fault: f, bit: b.Bit, from: b.Bit}
	if b.Elects {
		elects := reelection(t, 0)
		h.gap, h.changes = max(h.gap, elects.gap), max(h.changes, elects.changes)
		h.fault.stalls, h.fault.elects = electionOfEtcd, true
	}
	if h.away > 0 {
		h.bit, h.from = b.Began, b.Began.Add(h.away)
	}
	return h
}

// both reports whether two faults have the same cost.
func both(a, b hit, c cost) bool { return a.fault.costs&c != 0 && b.fault.costs&c != 0 }

// outage is when the API is away under some faults, if it is: under one of
// them, or once two of them have each taken a member of etcd.
func (c course) outage(hits ...hit) (from, to time.Time, is bool) {
	for _, h := range hits {
		if h.away == 0 {
			continue
		}
		if !is || h.bit.Before(from) {
			from = h.bit
		}
		to, is = later(to, h.from), true
	}
	if !is && len(hits) == 2 && both(hits[0], hits[1], ofMember) {
		return later(hits[0].bit, hits[1].bit), c.answered, true
	}
	return from, to, is
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// hindered is a fault whose recovery another fault hinders. If the followers may
// or may not have seen the last renewal, it is two hits. A lease that was
// released in the gap need not run out.
func (c course) hindered(t election.Timing, h, other hit, released bool) (all []hit) {
	from, to, away := c.outage(h, other)
	if h.releases && !released && (other.lease || other.fault.costs&ofRequests != 0) {
		// A leader that cannot release leaves a lease that must run out.
		h.lease, h.gap = true, takeover(t, 0).gap
		if h.fault.rolls { // at any step of it
			h.from = c.healed
		}
	}
	if both(h, other, ofRequests) {
		h.gap += t.WithDefaults().AttemptTimeout
		if !h.lease && !other.lease && h.bit.After(other.bit) {
			// A term that survives the cost of each fault may not survive both.
			h.gap = max(h.gap, takeover(t, 0).gap)
		}
	}
	if h.fault.hands && away && h.bit.After(from) {
		// A candidate that reads it after the outage cannot tell what was edited,
		// and when.
		h.lease, h.gap = true, takeover(t, 0).gap
	}
	if h.fault.revives && other.lease && h.bit.After(other.bit) {
		h.lease, h.gap = true, max(h.gap, takeover(t, 0).gap)
	}
	if !h.lease {
		return []hit{h}
	}
	if both(h, other, ofCandidate) {
		h.gap += 3 * t.WithDefaults().RenewInterval // those that go first are gone: two zones, and two candidates
	}
	if !away {
		return []hit{h}
	}
	if from.Sub(h.bit) >= seen(t) {
		// The lease runs while the API is away, and is over when it is back, or
		// has as long to run as without an outage.
		return []hit{h, {promise: promise{gap: afterOutage(t)}, from: to}}
	}
	// At worst the followers see the last renewal only when the API is back.
	h.from, h.gap = later(h.from, to), max(h.gap, lossInOutage(t, to.Sub(from)).gap)
	return []hit{h}
}

// seen is how long it takes until the followers have seen the last renewal of a
// leader that is gone, if the API answers.
func seen(t election.Timing) time.Duration {
	return worst(t) - t.WithDefaults().LeaseDuration
}

// afterOutage is how long after the API's return somebody leads if the lease is
// over by then. That is not the previous leader, to which the others leave
// Precedence.
func afterOutage(t election.Timing) time.Duration {
	t = t.WithDefaults()
	return lossInOutage(t, 0).gap - t.LeaseDuration + t.Precedence
}

// changes is how often the leader may change to another candidate: as often as
// each of the faults allows, once more where two together end a term, and once
// more after an outage among candidates with two timings.
func (c course) changes() (most int) {
	for _, t := range c.plan.timingsOf() {
		n := 0
		hits := c.hits(t, c.healed)
		for _, h := range hits {
			n += h.changes
		}
		if len(hits) == 2 && c.entangled(hits[0], hits[1]) {
			n++
		}
		if _, _, away := c.outage(hits...); away && len(c.plan.Mix) > 0 {
			n++ // a waiting candidate has its own Precedence, which may be too short for the previous leader
		}
		most = max(most, n)
	}
	return most
}

// entangled reports whether two faults together may end a term that each of
// them alone does not end.
func (c course) entangled(a, b hit) bool {
	_, _, away := c.outage(a, b)
	return both(a, b, ofRequests) || away && (a.lease || b.lease) ||
		a.releases && (b.lease || b.fault.costs&ofRequests != 0) || b.releases && (a.lease || a.fault.costs&ofRequests != 0)
}

// answered is when the API answered again, if it was away under a run's faults.
// That is when all was well, because until then servers that start may keep
// others from answering. It is earlier, before anything was mended, if a write
// shows it that was sent and acknowledged after the last of those faults.
func answered(p plan, e evidence, all map[string]evidence) time.Time {
	var since time.Time
	for i, b := range e.Bites {
		if f := p.Faults[i]; f.away || i > 0 && f.costs&p.Faults[0].costs&ofMember != 0 {
			since = later(since, b.Bit)
		}
	}
	first := e.Healed
	for _, one := range all {
		for _, report := range one.Printed.Writes() {
			if report.Acknowledged() && report.Sent.After(since) && report.Time.Before(first) && report.Time.Before(e.Mending) {
				first = report.Time
			}
		}
	}
	return first
}

// acks returns the acknowledged writes of all groups.
func acks(all map[string]evidence) (found []events.Event) {
	for _, e := range all {
		for _, report := range e.Printed.Writes() {
			if report.Acknowledged() {
				found = append(found, report)
			}
		}
	}
	return found
}
