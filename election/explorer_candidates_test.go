// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"fmt"
	"slices"
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/locks"
)

// send has a candidate send a request.
func (s *schedule) send(i int, r request) {
	p := s.own(i)
	r.sent, r.limit = moment{awake: s.local(i)}, exploredDeadline
	f := &flight{request: r}
	p.exchange.send(f)
	p.wires = append(p.wires, &wire{flight: f, request: r})
}

func (s *schedule) read(i int) {
	p := s.own(i)
	s.left.reads--
	if p.exchange.newest != nil {
		p.exchange.overtake()
		p.blind = true
	}
	s.send(i, request{op: opRead, asOf: p.observer.Newest().Version})
	if !s.left.lateReads {
		s.land(i, p.wires[len(p.wires)-1])
	}
	if !p.observer.Known() {
		s.watchAnew(p)
	}
}

// watchAnew has the watch begin with what follows the last read.
func (s *schedule) watchAnew(p *player) {
	p.wires[len(p.wires)-1].watch = &start{len(s.log), s.version}
}

func (s *schedule) claim(i int) {
	p := s.own(i)
	p.writes--
	base, r := p.observer.Takeover(locks.Candidate{Identity: "me"}, s.wall(i))
	s.send(i, request{op: opAcquire, base: base, record: r})
}

func (s *schedule) renew(i int) {
	p := s.own(i)
	p.writes--
	newest := p.observer.Newest()
	before := newest.Record
	if !newest.Version.Exists() {
		before = p.observer.LastRecord()
	}
	before.AcquireTime, before.Transitions = p.wrote.AcquireTime, p.wrote.Transitions
	details, lease := locks.Details{Holder: "me", Nonce: "me", Token: p.token}, exploredLease
	if !p.proven {
		details.Waits, lease = rules.PastUnknown, max(lease, before.LeaseDuration)
	}
	p.wrote = rules.Renewal(before, details, lease, s.wall(i))
	s.send(i, request{op: opRenew, base: newest.Version, record: p.wrote})
}

func (s *schedule) resign(i int) {
	p := s.own(i)
	newest := p.observer.Newest()
	s.send(i, request{op: opRelease, base: newest.Version, record: rules.Release(newest.Record, p.token, "", locks.Handover{}, s.wall(i))})
	s.leave(i)
}

// leave has a candidate do nothing more. What it has sent may still land.
func (s *schedule) leave(i int) {
	p := s.own(i)
	p.gone, p.leads, p.until = true, false, time.Time{}
	s.forget(p)
}

// forget gives up all requests of a candidate.
func (s *schedule) forget(p *player) {
	for _, w := range p.wires {
		w.flight = nil
	}
	p.wires = slices.DeleteFunc(p.wires, func(w *wire) bool { return w.landed || w.op == opRead })
	p.exchange.flights, p.exchange.newest = nil, nil
}

// land has a request arrive at the server.
func (s *schedule) land(i int, w *wire) {
	w.landed = true
	switch {
	case w.op == opRead:
		if s.stored.Version.Exists() {
			w.answer = s.named(s.stored, i, false)
		}
	case w.base.Exists() != s.stored.Version.Exists(), w.base.Exists() && w.base.Number != s.stored.Version.Number:
		w.err = locks.ErrConflict
	default:
		if h := w.record.Holder; h != "" && h != w.record.Details.Holder {
			s.broken = "S11: what is said of another holder is kept"
		}
		s.put(s.named(locks.Snapshot{Record: w.record}, i, true))
		w.answer = s.named(s.stored, i, false)
	}
}

// drop removes what can have no effect any more.
func (s *schedule) drop() {
	idle := func(w *wire) bool {
		late := w.base.Exists() && w.base.Number < s.version // a version that is no more
		return w.flight == nil && (w.landed || late)
	}
	for i, p := range s.seats {
		if slices.ContainsFunc(p.wires, idle) {
			p = s.own(i)
			p.wires = slices.DeleteFunc(p.wires, idle)
		}
	}
}

// deliver gives a candidate the answer to a request, or says that none comes.
func (s *schedule) deliver(i int, w *wire, lost error) {
	p, now := s.own(i), s.local(i)
	x, f := p.exchange, w.flight
	a := answer{request: f.request, flight: f, end: now, snapshot: w.answer, err: w.err}
	if w.watch != nil && lost == nil {
		p.seen, p.after = w.watch.seen, w.watch.after
	}
	if w.flight = nil; lost != nil {
		a.snapshot, a.err = locks.Snapshot{}, lost
		if w.op == opRead {
			w.landed = true
		}
	}
	x.came(&a)
	if p.leads {
		s.answerLeader(i, a, now)
	} else {
		s.answerFollower(i, a, now)
	}
}

func (s *schedule) answerLeader(i int, a answer, now time.Time) {
	p := s.own(i)
	x := p.exchange
	switch {
	case a.writes() && a.known:
		return
	case a.conflict():
		x.refused(a)
	case a.err != nil:
	case a.op == opRead:
		x.shown.note(a)
		news := p.observer.ObserveRead(a.snapshot, a.asOf, false, now)
		if !x.counts(a, news) {
			return
		}
		if s.verdict(i); !p.leads {
			return
		}
		if w := x.shownLanding(a); w != nil {
			s.acknowledge(i, w.landed(p.observer.Newest(), now), now)
		}
		x.waitAgain(a.snapshot, now)
	default:
		s.acknowledge(i, a, now)
	}
}

// acknowledge extends a term by a renewal that has landed.
func (s *schedule) acknowledge(i int, a answer, now time.Time) {
	p := s.own(i)
	p.observer.Observe(a.snapshot, now)
	p.exchange.acknowledged(a)
	if p.proven {
		p.observer.Renewed()
	}
	p.until = rules.Latest(p.until, p.exchange.trustedFrom(a).awake.Add(exploredDeadline))
	s.verdict(i)
}

// verdict ends a term that is lost.
func (s *schedule) verdict(i int) {
	p := s.seats[i]
	if !p.leads {
		return
	}
	p = s.own(i)
	if p.observer.Lost() != "" || !s.local(i).Before(p.until) {
		p.leads, p.until = false, time.Time{}
		s.forget(p)
		p.exchange.begin()
		p.exchange.doubt()
	}
	p.proven = p.proven || p.leads && !p.observer.Unproven(s.local(i))
}

func (s *schedule) answerFollower(i int, a answer, now time.Time) {
	p := s.own(i)
	x := p.exchange
	p.blind = p.blind || a.failed() && a.newest
	switch {
	case a.op == opRead && a.err != nil:
	case a.op == opRead:
		x.shown.note(a)
		news := p.observer.ObserveRead(a.snapshot, a.asOf, p.blind, now)
		p.blind = false
		x.counts(a, news)
		if x.landedSince(a) {
			x.doubt()
		}
		if !x.unsure {
			x.waitAgain(a.snapshot, now)
		}
		if w := x.shownLanding(a); w != nil && w.op == opAcquire {
			won := w.landed(p.observer.Newest(), now)
			if now.Before(x.trustedFrom(won).awake.Add(exploredDeadline)) {
				x.newest = nil
				s.win(i, won)
			}
		}
	case a.err == nil:
		p.observer.Observe(a.snapshot, now)
		if p.observer.IsOfThisProcess(p.observer.LastRecord()) {
			s.win(i, a)
		}
	default:
		if a.conflict() {
			x.refused(a)
		} else {
			x.doubt()
		}
	}
}

func (s *schedule) win(i int, a answer) {
	p := s.own(i)
	x := p.exchange
	x.supersede()
	x.begin()
	p.leads, p.proven, p.wrote, p.token = true, false, a.record, a.snapshot.Version.Number
	p.until = x.trustedFrom(a).awake.Add(exploredDeadline)
	p.observer.Won(p.token, a.record)
	s.verdict(i)
}

// hear has a candidate's watch report the next change.
func (s *schedule) hear(i int) {
	p := s.own(i)
	e := locks.Event{Snapshot: s.named(s.log[p.seen], i, false), Gapless: !s.left.skips}
	p.seen++
	p.observer.ObserveEvent(e, p.after, s.local(i))
	s.verdict(i)
}

// works reports whether the work of a candidate may run.
func (s *schedule) works(i int) bool {
	p := s.seats[i]
	return p.leads && p.proven && s.local(i).Before(p.until)
}

// wrong says which law is broken in this state; empty if none is.
func (s *schedule) wrong() string {
	n := 0
	for i, p := range s.seats {
		if f, known := p.observer.Free(); known && f.Details.Holder != "" && f.Details.Holder != f.Holder {
			return "S11: what is said of another holder is believed"
		}
		if s.works(i) {
			n++
			if r := p.observer.Newest().Record; r.Holder != "" && r.Holder != "me" || r.Details.Nonce == "you" {
				return "S7: a term goes on that has seen another's record"
			}
			if p.token < s.tokens {
				return fmt.Sprintf("S8: a term of token %d works after one of token %d", p.token, s.tokens)
			}
			s.tokens = p.token
		}
	}
	if s.now < s.stranger {
		n++
	}
	if n > 1 {
		return "two leaders"
	}
	return s.broken
}

// mayWrite reports whether the exchange lets a candidate write.
func (p *player) mayWrite() bool {
	do, _ := p.exchange.next(epoch, wants{write: epoch, read: epoch.Add(time.Hour)})
	return p.writes > 0 && do == write
}

// leadsInTheEnd reports whether somebody works some time after this state, if nothing more goes wrong
// but that no watch says anything any more.
func (s *schedule) leadsInTheEnd() bool {
	s = s.clone()
	s.left.reads = 1000
	for i := range s.seats {
		s.own(i).writes = 1000
	}
	for range 200 {
		idle := true
		for i := range s.seats {
			for p := s.own(i); len(p.wires) > 0; s.drop() {
				w := p.wires[0]
				if !w.landed {
					s.land(i, w)
				}
				if w.flight != nil {
					s.deliver(i, w, nil)
				}
			}
			if s.works(i) {
				return true
			}
			idle = s.act(i) == wait && idle
		}
		if idle {
			s.pass(s.now + exploredDeadline/10)
		}
	}
	endless := s.stored.Record.Holder != "" && s.stored.Record.LeaseDuration <= 0 // time alone never frees it
	return endless || s.seats[0].gone && s.seats[1].gone
}

// act has a candidate do what it should do next.
func (s *schedule) act(i int) step {
	p, now := s.seats[i], s.local(i)
	free, known := p.observer.Free()
	needs := wants{read: now}
	switch {
	case p.gone:
		return wait
	case p.leads:
		needs.write = p.wrote.RenewTime.Add(exploredDeadline/5 - s.left.wall[i])
	case known:
		needs.write = free.At
	}
	do, _ := p.exchange.next(now, needs)
	switch {
	case do == write && p.leads:
		s.renew(i)
	case do == write:
		s.claim(i)
	case do != wait, !p.leads && s.now > p.asked+exploredLease: // it has heard nothing for long
		p.asked = s.now
		s.read(i)
		return read
	}
	return do
}
