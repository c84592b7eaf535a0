// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/locks"
)

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
	timing := Timing{
		LeaseDuration: exploredLease, RenewDeadline: exploredDeadline,
		RenewInterval: 200 * time.Millisecond, AttemptTimeout: 300 * time.Millisecond,
	}
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
