// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"flag"
	"fmt"
	"hash/maphash"
	"slices"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/locks"
)

// The explorer plays every small schedule of two candidates and one lock: every order in which their
// requests leave, land, are answered and are lost, in which the watch reports, hands meddle and time
// passes. The candidates are the real exchange and the real rules. When they write and read is not
// decided as an elector decides it: a candidate may do at any time what the exchange and the rules
// permit, so each policy is among those that are tried.
//
// Of 71 mutants of S1, S3, S4, S6, S7, S8 and S11 in exchange.go and rules, of which test/suites/mutants
// keeps some, it finds 35. It does not find those of
//   - what it does not play: a record of two parts (6), a restored backup (3), tokens that nobody wrote
//     (3), a third candidate, details for people, two reads around a deletion, and answers to
//     requests of a term that is over (1 each);
//   - when to send and what to wait for, which makes leaders late and not two: S6, and a slow request
//     (8), and who goes on or takes its own lock back sooner (2);
//   - a second rule that keeps two from leading if the first is gone: a candidate that recreated a record
//     waits before its work begins, one whose acquisition another followed loses its term at once, an
//     emptied record has the lease of the one before it (6);
//   - a client-go candidate of a longer lease that came and went unseen (3): if the watch is silent about
//     it for longer than the candidate waits, two lead without any mutant.

// horizon is how long a schedule lasts at most.
const horizon = 4 * exploredLease

// The tightest timing that is allowed for clocks of which one is 1 % fast.
const (
	exploredLease    = 1010 * time.Millisecond
	exploredDeadline = 1000 * time.Millisecond
)

// clientGoLease is how long a client-go candidate leaves a record alone.
const clientGoLease = 1000 * time.Millisecond

var epoch = time.Unix(1000, 0).UTC()

// budget is what may happen in a schedule.
type budget struct {
	writes       int // of each candidate
	reads        int
	losses       int // requests and answers that are lost
	ticks        int // times at which nothing is due
	deletions    int // by hand
	emptyings    int // by hand
	edits        int // by hand, of the rest of the record
	removals     int // by hand, of the duration
	wipes        int // by hand, of the holder and of more
	strangers    int // terms of a client-go candidate
	clears       int // by a client-go candidate, of a lease that is another's
	deaths       int // of a candidate, which the other one can prove
	resignations int
	absent       bool // there is no record at first; otherwise the first candidate leads
	newcomer     bool // the second candidate has seen nothing yet
	alone        bool // the first candidate is gone, and its lease runs
	renewed      bool // it has renewed that, so that the record has its token
	released     bool // it has given the lock up since
	single       bool // the second candidate is gone
	restarts     bool // a watch starts over at what a read shows
	skips        bool // watches may leave something out
	lateReads    bool // reads land later than they are sent, and four requests may be under way
	longer       bool // the client-go candidate has a longer lease
	oneName      bool // the candidates have the same identity
	drift        [2]int
	wall         [2]time.Duration // how far wall clocks are off
	stopped      bool             // wall clocks stand still
}

// mostFlights is how many requests of a candidate may be under way when it reads.
func (b budget) mostFlights() int {
	if b.lateReads {
		return 4
	}
	return 2
}

// schedule is one state of all.
type schedule struct {
	left budget
	now  time.Duration

	version uint64
	stored  locks.Snapshot // in the server's names
	changed time.Duration  // when it was written last
	log     []locks.Snapshot
	uids    int

	seats    [2]*player
	owned    [2]bool       // players that no other schedule shares
	stranger time.Duration // until then a client-go candidate works
	tokens   uint64        // the largest of a term that worked
	broken   string        // which law a record breaks
}

// player is one candidate.
type player struct {
	observer *rules.Observer
	exchange *exchange
	gone     bool // it has resigned, or is dead
	dead     bool
	leads    bool
	proven   bool // its work may run
	blind    bool // something may have happened unseen since its last read
	until    time.Time
	token    uint64
	wrote    locks.Record
	wires    []*wire
	seen     int // how much of the log its watch has shown
	after    uint64
	writes   int
	asked    time.Duration // when it last read, with all going well
	sum      uint64        // of all this; zero if it is not known
}

// wire is a request on its way, or its answer.
type wire struct {
	flight *flight // nil once nobody waits for the answer
	request
	landed bool
	answer locks.Snapshot
	err    error
	watch  *start // the watch starts over with what follows this read
}

// start is where a watch begins.
type start struct {
	seen  int
	after uint64
}

// named translates a record between the names of the server, which are 0 and 1, and those of a
// candidate, which calls itself me and the other one you. If both have one identity, that is me.
func (s *schedule) named(one locks.Snapshot, me int, there bool) locks.Snapshot {
	swap := func(name *string) {
		a, b := [2]string{"0", "1"}, [2]string{"me", "you"}
		if me == 1 {
			b = [2]string{"you", "me"}
		}
		if there {
			a, b = b, a
		}
		if i := slices.Index(a[:], *name); i >= 0 {
			*name = b[i]
		}
	}
	if !s.left.oneName {
		swap(&one.Record.Holder)
		swap(&one.Record.Details.Holder)
	}
	swap(&one.Record.Details.Nonce)
	one.Record.Details.ProcessLock = "lock/" + one.Record.Details.Nonce
	return one
}

func newSchedule(b budget) *schedule {
	timing := Timing{LeaseDuration: exploredLease, RenewDeadline: exploredDeadline, RenewInterval: 200 * time.Millisecond, AttemptTimeout: 300 * time.Millisecond}
	s := &schedule{left: b, owned: [2]bool{true, true}}
	for i := range s.seats {
		p := &player{writes: b.writes}
		p.observer = rules.NewObserver(rules.Self{Identity: "me", Nonce: "me", Lease: exploredLease, WaitOnAbsent: true})
		p.exchange = &exchange{timing: timing, observer: p.observer}
		p.exchange.unsure = true
		s.seats[i] = p
	}
	if b.absent {
		for i, p := range s.seats {
			s.left.reads++
			s.read(i)
			s.deliver(i, p.wires[0], nil)
		}
		return s
	}
	s.put(locks.Snapshot{Record: locks.Record{}}) // one that nobody held
	for i, p := range s.seats {
		if b.newcomer && i == 1 {
			s.left.reads++ // which it begins with
			continue
		}
		s.hear(i)
		p.exchange.unsure = false
		p.after = s.version
	}
	s.seats[0].writes++
	s.claim(0)
	s.serve(0)
	if b.renewed {
		s.seats[0].writes++
		s.renew(0)
		s.serve(0)
		s.hear(1)
		s.hear(1)
	}
	if b.released {
		s.resign(0)
		s.serve(0)
		s.hear(1)
	}
	if b.alone {
		s.leave(0)
	}
	if b.single {
		s.leave(1)
	}
	return s
}

// serve has the only request of a candidate land and be answered.
func (s *schedule) serve(i int) {
	s.drop()
	w := s.own(i).wires[0]
	s.land(i, w)
	if w.flight != nil {
		s.deliver(i, w, nil)
	}
	s.drop()
}

// clone copies a schedule, except its players: see own.
func (s *schedule) clone() *schedule {
	c := *s
	c.log = slices.Clip(s.log)
	c.owned = [2]bool{}
	return &c
}

// own returns a player that the schedule may change.
func (s *schedule) own(i int) *player {
	if !s.owned[i] {
		s.seats[i], s.owned[i] = s.seats[i].clone(), true
	}
	return s.seats[i]
}

func (p *player) clone() *player {
	q := *p
	o, x := *p.observer, *p.exchange
	x.observer = &o
	q.observer, q.exchange, q.sum = &o, &x, 0
	copies := map[*flight]*flight{nil: nil}
	twin := func(f *flight) *flight {
		n, is := copies[f]
		if !is {
			v := *f
			n, copies[f] = &v, &v
		}
		return n
	}
	twins := func(fs []*flight) []*flight {
		all := make([]*flight, len(fs))
		for i, f := range fs {
			all[i] = twin(f)
		}
		return all
	}
	x.flights, x.open, x.newest = twins(x.flights), twins(x.open), twin(x.newest)
	q.wires = make([]*wire, len(p.wires))
	for i, w := range p.wires {
		v := *w
		v.flight = twin(w.flight)
		q.wires[i] = &v
	}
	return &q
}

var seed = maphash.MakeSeed()

// key tells states apart. Those that differ only in who is which candidate are one.
func (s *schedule) key() uint64 {
	var sums [2]uint64
	for i, p := range s.seats {
		if p.sum == 0 {
			p.sum = p.hash(s.left.drift[i], s.left.wall[i])
		}
		sums[i] = p.sum
	}
	swapped := sums[1] < sums[0]
	if swapped {
		sums[0], sums[1] = sums[1], sums[0]
	}
	var h maphash.Hash
	h.SetSeed(seed)
	left := s.left
	left.drift, left.wall = [2]int{}, [2]time.Duration{}
	side := func(one locks.Snapshot) locks.Snapshot {
		if swapped {
			return s.named(s.named(one, 0, false), 1, true)
		}
		return one
	}
	maphash.WriteComparable(&h, left)
	maphash.WriteComparable(&h, sums)
	maphash.WriteComparable(&h, [4]int64{int64(s.now), int64(s.changed), int64(s.stranger), int64(s.uids)})
	maphash.WriteComparable(&h, [2]uint64{s.version, s.tokens})
	maphash.WriteComparable(&h, side(s.stored))
	for _, one := range s.log[min(s.seats[0].seen, s.seats[1].seen):] {
		maphash.WriteComparable(&h, side(one))
	}
	return h.Sum64()
}

func (p *player) hash(drift int, wall time.Duration) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	x := p.exchange
	maphash.WriteComparable(&h, *p.observer)
	number := func(f *flight) int {
		return slices.IndexFunc(p.wires, func(w *wire) bool { return w.flight == f && f != nil })
	}
	maphash.WriteComparable(&h, struct {
		gone, dead, leads, proven, blind, unsure bool
		until, unanswered                        time.Time
		token, after                             uint64
		drift, seen, writes                      int
		overtaken, denials, newest, open         int
		denied                                   locks.Version
		shown                                    shown
		wrote                                    locks.Record
		wall                                     time.Duration
	}{
		p.gone, p.dead, p.leads, p.proven, p.blind, x.unsure, p.until, x.unanswered, p.token, p.after, drift, p.seen, p.writes,
		x.overtaken, x.denials, number(x.newest), len(x.open), deref(x.denied), x.shown, p.wrote, wall,
	})
	for _, w := range p.wires {
		maphash.WriteComparable(&h, w.request)
		if x.unsure && w.flight != nil {
			maphash.WriteComparable(&h, w.flight.needs)
		}
		maphash.WriteComparable(&h, w.landed)
		maphash.WriteComparable(&h, w.err != nil)
		maphash.WriteComparable(&h, w.answer)
		if w.watch != nil {
			maphash.WriteComparable(&h, *w.watch)
		}
		if f := w.flight; f != nil {
			maphash.WriteComparable(&h, f.unlanded)
			maphash.WriteComparable(&h, f.lost)
		}
	}
	for _, f := range x.open {
		maphash.WriteComparable(&h, f.request)
	}
	return h.Sum64()
}

func deref(v *locks.Version) locks.Version {
	if v == nil {
		return locks.Version{}
	}
	return *v
}

// local is what a candidate's clock says.
func (s *schedule) local(i int) time.Time {
	return epoch.Add(s.now * time.Duration(100+s.left.drift[i]) / 100)
}

// wall is what a candidate writes into records.
func (s *schedule) wall(i int) time.Time {
	if s.left.stopped {
		return epoch
	}
	return s.local(i).Add(s.left.wall[i])
}

// put stores what follows on the server.
func (s *schedule) put(next locks.Snapshot) {
	s.version++
	if !s.stored.Version.Exists() {
		s.uids++
	}
	next.Version = locks.Version{Number: s.version, UID: fmt.Sprint(s.uids), Opaque: true}
	s.change(next)
}

func (s *schedule) change(next locks.Snapshot) {
	s.stored, s.changed = next, s.now
	s.log = append(s.log, next)
}

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

// moves are all that may happen next. Each changes the schedule that it is given.
func (s *schedule) moves() (all []func(*schedule)) {
	add := func(m func(*schedule)) { all = append(all, m) }
	for i, p := range s.seats {
		for n, w := range p.wires {
			if !w.landed {
				add(func(s *schedule) { s.land(i, s.own(i).wires[n]) })
			}
			if w.flight != nil && w.landed {
				add(func(s *schedule) { s.deliver(i, s.own(i).wires[n], nil) })
			}
			if w.flight != nil && s.left.losses > 0 {
				add(func(s *schedule) { s.left.losses--; s.deliver(i, s.own(i).wires[n], context.DeadlineExceeded) })
			}
		}
		if p.gone {
			continue
		}
		if p.seen < len(s.log) && p.observer.Known() {
			add(func(s *schedule) { s.hear(i) })
			if s.left.skips {
				add(func(s *schedule) { s.own(i).seen++ })
			}
		}
		if s.left.reads > 0 && len(p.exchange.flights) < s.left.mostFlights() && (p.exchange.unsure || p.exchange.busy() || s.left.alone) {
			add(func(s *schedule) {
				s.read(i)
				if s.left.restarts {
					s.watchAnew(s.own(i))
				}
			})
		}
		free, known := p.observer.Free()
		switch now := s.local(i); {
		case p.leads && p.mayWrite():
			add(func(s *schedule) { s.renew(i) })
		case !p.leads && known && !free.At.After(now) && p.mayWrite():
			add(func(s *schedule) { s.claim(i) })
		}
		if p.leads && s.left.resignations > 0 && !p.exchange.writing() && p.observer.Holds() && p.proven {
			add(func(s *schedule) { s.left.resignations--; s.resign(i) })
		}
		if s.left.deaths > 0 {
			add(func(s *schedule) { s.left.deaths--; s.leave(i); s.own(i).dead = true })
		}
		if s.seats[1-i].dead {
			add(func(s *schedule) { s.own(i).observer.Follow("lock/me") })
		}
	}
	return s.meddling(all)
}

// meddling adds what hands, others and time may do.
func (s *schedule) meddling(all []func(*schedule)) []func(*schedule) {
	meddle := func(left func(*budget) *int, may bool, deeds ...func(*schedule)) {
		for _, do := range deeds {
			if may && *left(&s.left) > 0 {
				all = append(all, func(s *schedule) { *left(&s.left)--; do(s) })
			}
		}
	}
	held, exists := s.stored.Record.Holder != "", s.stored.Version.Exists()
	meddle(func(b *budget) *int { return &b.deletions }, exists, func(s *schedule) {
		s.version++
		s.change(locks.Snapshot{Version: locks.Version{Number: s.version}})
	})
	meddle(func(b *budget) *int { return &b.emptyings }, held, edit(func(r *locks.Record) { r.Holder = "" }))
	removeDuration := edit(func(r *locks.Record) { r.LeaseDuration = 0 })
	meddle(func(b *budget) *int { return &b.edits }, exists,
		edit(func(r *locks.Record) { r.Details = locks.Details{} }),
		edit(func(r *locks.Record) { r.LeaseDuration = exploredLease / 5 }),
		removeDuration,
	)
	meddle(func(b *budget) *int { return &b.removals }, held, removeDuration)
	wipes := func(b *budget) *int { return &b.wipes }
	meddle(wipes, exists,
		edit(func(r *locks.Record) { r.Holder, r.LeaseDuration = "", exploredLease/5 }),
		edit(func(r *locks.Record) {
			r.Holder, r.LeaseDuration, r.AcquireTime, r.RenewTime = "", exploredLease/5, time.Time{}, time.Time{}
		}),
		edit(func(r *locks.Record) { r.Holder, r.RenewTime = "", epoch.Add(s.now+1) }),
		edit(func(r *locks.Record) { r.Holder, r.Details = "", locks.Details{} }),
		edit(func(r *locks.Record) { *r = locks.Record{} }),
	)
	// What client-go's release leaves: of a record with a holder, it cannot be told from one.
	meddle(wipes, exists && !held, edit(func(r *locks.Record) { *r = locks.Record{RenewTime: epoch.Add(s.now + 1), LeaseDuration: time.Second} }))
	expired := s.now-s.changed >= clientGoLease
	released := exists && !held && s.stored.Record.Details.Released != 0
	absent := !exists && s.left.alone && s.lastHolder() != "1" // it creates a record at once, whoever may still lead
	meddle(func(b *budget) *int { return &b.strangers }, released || absent || held && expired, func(s *schedule) {
		r := s.stored.Record // with the annotations that are there
		r.Holder, r.LeaseDuration, r.AcquireTime, r.RenewTime = "stranger", exploredLease, epoch.Add(s.now), epoch.Add(s.now)
		works := exploredDeadline
		if s.left.longer {
			r.LeaseDuration, works = 2*exploredLease, 2*exploredDeadline
		}
		r.Transitions++
		s.put(locks.Snapshot{Record: r})
		s.stranger = s.now + works
	})
	others := s.stored.Record.Holder != "stranger" || s.left.alone && s.stored.Record.Details.Token == 0
	meddle(func(b *budget) *int { return &b.clears }, held && others, edit(func(r *locks.Record) { // annotations stay
		r.Holder, r.LeaseDuration, r.AcquireTime, r.RenewTime = "", time.Second, epoch.Add(s.now+1), epoch.Add(s.now+1)
	}))
	if to, due := s.nextTime(); due && to < horizon {
		all = append(all, func(s *schedule) { s.pass(to) })
		if tick := s.now + exploredDeadline/3; tick < to {
			meddle(func(b *budget) *int { return &b.ticks }, true, func(s *schedule) { s.pass(tick) })
		}
	}
	return all
}

// lastHolder is who held the last record that there was.
func (s *schedule) lastHolder() (name string) {
	for _, one := range s.log {
		if one.Version.Exists() {
			name = one.Record.Holder
		}
	}
	return name
}

// edit has a hand change the record.
func edit(change func(r *locks.Record)) func(*schedule) {
	return func(s *schedule) {
		r := s.stored.Record
		change(&r)
		s.put(locks.Snapshot{Record: r})
	}
}

// nextTime is when something is due next.
func (s *schedule) nextTime() (at time.Duration, due bool) {
	for _, t := range []time.Duration{s.stranger, s.changed + clientGoLease} {
		if (s.left.alone || s.left.single) && t > s.now && (!due || t < at) {
			at, due = t, true
		}
	}
	for i, p := range s.seats {
		if p.gone {
			continue
		}
		free, known := p.observer.Free()
		for _, t := range []struct {
			at time.Time
			is bool
		}{{p.until, p.leads}, {p.observer.ProvenAt(), p.leads && !p.proven}, {free.At, !p.leads && known}} {
			global := (t.at.Sub(epoch)*100 + time.Duration(99+s.left.drift[i])) / time.Duration(100+s.left.drift[i])
			if t.is && global > s.now && (!due || global < at) {
				at, due = global, true
			}
		}
	}
	return at, due
}

func (s *schedule) pass(to time.Duration) {
	s.now = to
	for i := range s.seats {
		s.verdict(i)
	}
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

// exploration is what there is to see from one state on.
type exploration struct {
	visited map[uint64]struct{}
	path    []int // the moves up to the present state, by their numbers
}

// visit visits a state and all that come after it, and returns what is wrong with one.
func (e *exploration) visit(s *schedule) error {
	k := s.key()
	if _, is := e.visited[k]; is {
		return nil
	}
	e.visited[k] = struct{}{}
	if len(e.visited)%sampled == 0 && !s.leadsInTheEnd() {
		return fmt.Errorf("nobody leads in the end, after the moves %v", e.path)
	}
	for n, move := range s.moves() {
		next := s.clone()
		move(next)
		next.drop()
		e.path = append(e.path, n)
		if why := next.wrong(); why != "" {
			return fmt.Errorf("%s, after the moves %v", why, e.path)
		}
		if err := e.visit(next); err != nil {
			return err
		}
		e.path = e.path[:len(e.path)-1]
	}
	return nil
}

// sampled says of how many states one is asked whether somebody leads in the end.
const sampled = 50

// explored are the schedules, by what they are about.
var explored = []struct {
	about string
	many  bool // there are more than 100,000 states
	may   budget
}{
	{"three writes each", false, budget{writes: 3}},
	{"three writes each, of which two are lost", true, budget{writes: 3, losses: 2}},
	{"reads", true, budget{writes: 1, reads: 2}},
	{"reads after a loss", true, budget{writes: 1, reads: 1, losses: 1}},
	{"a late read", false, budget{writes: 1, reads: 1, lateReads: true}},
	{"late reads", true, budget{writes: 1, reads: 2, lateReads: true}},
	{"late reads, and a deletion", true, budget{writes: 1, reads: 1, deletions: 1, lateReads: true}},
	{"late reads of one candidate", false, budget{writes: 2, reads: 2, losses: 1, lateReads: true, single: true}},
	{"late reads after the leader has gone", true, budget{writes: 1, reads: 2, deletions: 1, lateReads: true, alone: true}},
	{"nothing is due", true, budget{writes: 2, ticks: 1, losses: 1}},
	{"the leader's clock is fast", false, budget{writes: 2, losses: 1, drift: [2]int{1, 0}}},
	{"the follower's clock is fast", false, budget{writes: 2, losses: 1, drift: [2]int{0, 1}}},
	{"no record at first", false, budget{writes: 2, losses: 1, absent: true}},
	{"a deletion", true, budget{writes: 2, losses: 1, deletions: 1}},
	{"two deletions", false, budget{writes: 1, losses: 1, deletions: 2}},
	{"a deletion, and a fast clock", false, budget{writes: 1, losses: 1, deletions: 1, drift: [2]int{0, 1}}},
	{"a deletion, and reads", true, budget{writes: 1, reads: 1, deletions: 1}},
	{"an emptied record", true, budget{writes: 2, emptyings: 1}},
	{"an emptied record, and a loss", false, budget{writes: 1, losses: 1, emptyings: 2}},
	{"a hand's edits", true, budget{writes: 1, losses: 1, edits: 2}},
	{"a hand's edit, and an emptied record", true, budget{writes: 1, edits: 1, emptyings: 1}},
	{"a client-go candidate", false, budget{writes: 2, strangers: 1}},
	{"a client-go candidate, and a death", false, budget{writes: 1, strangers: 1, deaths: 1}},
	{"a client-go candidate, and a resignation", true, budget{writes: 2, strangers: 1, resignations: 1}},
	{"a client-go candidate of a longer lease", false, budget{writes: 1, strangers: 1, longer: true}},
	{"a client-go candidate of a longer lease, and an emptied record", true, budget{writes: 1, strangers: 1, emptyings: 1, longer: true}},
	{"a client-go candidate of a longer lease, and a hand's edit", true, budget{writes: 1, strangers: 1, edits: 1, longer: true}},
	{"a client-go candidate of a longer lease, and a deletion", true, budget{writes: 1, strangers: 1, deletions: 1, longer: true}},
	{"a client-go candidate that clears another's lease", true, budget{writes: 2, losses: 1, clears: 1}},
	{"a client-go candidate that leads and clears", false, budget{writes: 1, strangers: 1, clears: 1}},
	{"wall clocks that are off", false, budget{writes: 2, losses: 1, wall: [2]time.Duration{-time.Hour, time.Hour}}},
	{"one name", false, budget{writes: 2, losses: 1, oneName: true}},
	{"one name, and a resignation", false, budget{writes: 2, resignations: 1, oneName: true}},
	{"one name, and an emptied record", false, budget{writes: 1, losses: 1, emptyings: 1, oneName: true}},
	{"one name, and a hand's edit", false, budget{writes: 1, edits: 1, oneName: true}},
	{"a death, and a loss", true, budget{writes: 2, losses: 1, deaths: 1}},
	{"a resignation, and a loss", false, budget{writes: 2, losses: 1, resignations: 1}},
	{"a resignation, and an emptied record", false, budget{writes: 1, resignations: 1, emptyings: 1}},
	{"wall clocks that stand still", true, budget{writes: 2, ticks: 1, stopped: true}},
	{"a hand that wipes", true, budget{writes: 1, losses: 1, wipes: 1}},
	{"a hand that wipes twice", true, budget{writes: 1, wipes: 2, alone: true}},
	{"a client-go candidate of a longer lease, and a hand that wipes", true, budget{writes: 1, strangers: 1, wipes: 2, longer: true, alone: true}},
	{"a client-go candidate of a longer lease, a deletion and a read", true, budget{writes: 1, strangers: 1, deletions: 1, reads: 1, longer: true, alone: true}},
	{"a client-go candidate of a longer lease, no duration and a read", true, budget{writes: 1, strangers: 1, removals: 1, reads: 1, longer: true, alone: true}},
	{"a client-go candidate between two deletions", false, budget{writes: 1, strangers: 1, deletions: 2, alone: true}},
	{"a watch that starts over, and a client-go candidate between two deletions", true, budget{writes: 1, strangers: 1, deletions: 2, reads: 1, restarts: true, alone: true}},
	{"a client-go candidate that clears another one's lease", false, budget{writes: 1, strangers: 1, clears: 1, alone: true}},
	{"a client-go candidate after a renewed term, and a hand that wipes", true, budget{writes: 1, strangers: 1, wipes: 2, longer: true, alone: true, renewed: true}},
	{"a client-go candidate after its own term, and a hand that wipes", true, budget{writes: 1, strangers: 1, wipes: 1, reads: 1, single: true}},
	{"a client-go candidate after its own term, a hand that wipes, and a watch that starts over", true, budget{writes: 1, strangers: 1, wipes: 1, reads: 1, restarts: true, single: true}},
	{"a newcomer, and a deletion", false, budget{writes: 1, deletions: 1, newcomer: true}},
	{"watches that skip, a release and a deletion", false, budget{writes: 1, strangers: 1, deletions: 1, skips: true, renewed: true, released: true, alone: true}},
	{"watches that skip, and a deletion", false, budget{writes: 1, strangers: 1, deletions: 1, skips: true, alone: true}},
	{"watches that skip, a deletion and a read", true, budget{writes: 1, strangers: 1, deletions: 1, reads: 1, skips: true, alone: true}},
	{"a newcomer", false, budget{writes: 2, losses: 1, newcomer: true}},
	{"a newcomer, and a hand that wipes", true, budget{writes: 1, wipes: 1, newcomer: true}},
	{"a newcomer, and a client-go candidate of a longer lease", false, budget{writes: 1, strangers: 1, removals: 1, longer: true, newcomer: true, alone: true}},
}

var exploresAll = flag.Bool("explore", false, "explores the schedules with the most states too")

func TestNoSmallScheduleMakesTwoLeaders(t *testing.T) {
	if testing.Short() {
		t.Skip("explores for long, on one goroutine at a time")
	}
	for _, one := range explored {
		t.Run(one.about, func(t *testing.T) {
			if one.many && !*exploresAll {
				t.Skip("explored with -explore")
			}
			t.Parallel()
			from := time.Now()
			e := exploration{visited: map[uint64]struct{}{}}
			if err := e.visit(newSchedule(one.may)); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d states in %v", len(e.visited), time.Since(from).Round(time.Millisecond))
		})
	}
}
