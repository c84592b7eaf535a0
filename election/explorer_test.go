// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// The explorer plays every small schedule of two candidates and one lock: every order in which their
// requests leave, land, are answered and are lost, in which the watch reports, hands meddle and time
// passes. The candidates are the real exchange and the real rules. When they write and read is not
// decided as an elector decides it: a candidate may do at any time what the exchange and the rules
// permit, so each policy is among those that are tried. explorer_state_test.go has the state of all, and
// explorer_candidates_test.go what candidates do and what answers make of them.
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
	later := epoch.Add(s.now + 1)
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
		edit(func(r *locks.Record) { r.Holder, r.RenewTime = "", later }),
		edit(func(r *locks.Record) { r.Holder, r.Details = "", locks.Details{} }),
		edit(func(r *locks.Record) { *r = locks.Record{} }),
	)
	// What client-go's release leaves: of a record with a holder, it cannot be told from one.
	meddle(wipes, exists && !held, edit(func(r *locks.Record) { *r = locks.Record{RenewTime: later, LeaseDuration: time.Second} }))
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
		r.Holder, r.LeaseDuration, r.AcquireTime, r.RenewTime = "", time.Second, later, later
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
	{"a longer client-go lease", false, budget{writes: 1, strangers: 1, longer: true}},
	{"a longer client-go lease, and an emptied record", true, budget{writes: 1, strangers: 1, emptyings: 1, longer: true}},
	{"a longer client-go lease, and a hand's edit", true, budget{writes: 1, strangers: 1, edits: 1, longer: true}},
	{"a longer client-go lease, and a deletion", true, budget{writes: 1, strangers: 1, deletions: 1, longer: true}},
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
	{"a longer client-go lease, and a hand that wipes", true, budget{writes: 1, strangers: 1, wipes: 2, longer: true, alone: true}},
	{"a longer client-go lease, deletion and read", true, budget{writes: 1, strangers: 1, deletions: 1, reads: 1, longer: true, alone: true}},
	{"a longer client-go lease, no duration, a read", true, budget{writes: 1, strangers: 1, removals: 1, reads: 1, longer: true, alone: true}},
	{"a client-go candidate between two deletions", false, budget{writes: 1, strangers: 1, deletions: 2, alone: true}},
	{"a new watch, client-go and two deletions", true, budget{writes: 1, strangers: 1, deletions: 2, reads: 1, restarts: true, alone: true}},
	{"a client-go candidate that clears another one's lease", false, budget{writes: 1, strangers: 1, clears: 1, alone: true}},
	{"client-go after a renewed term, and a wipe", true, budget{writes: 1, strangers: 1, wipes: 2, longer: true, alone: true, renewed: true}},
	{"client-go after its own term, and a wipe", true, budget{writes: 1, strangers: 1, wipes: 1, reads: 1, single: true}},
	{"client-go after its own term, and a new watch", true, budget{writes: 1, strangers: 1, wipes: 1, reads: 1, restarts: true, single: true}},
	{"a newcomer, and a deletion", false, budget{writes: 1, deletions: 1, newcomer: true}},
	{"watches that skip, a release and a deletion", false, budget{
		writes: 1, strangers: 1, deletions: 1, skips: true, renewed: true, released: true, alone: true,
	}},
	{"watches that skip, and a deletion", false, budget{writes: 1, strangers: 1, deletions: 1, skips: true, alone: true}},
	{"watches that skip, a deletion and a read", true, budget{writes: 1, strangers: 1, deletions: 1, reads: 1, skips: true, alone: true}},
	{"a newcomer", false, budget{writes: 2, losses: 1, newcomer: true}},
	{"a newcomer, and a hand that wipes", true, budget{writes: 1, wipes: 1, newcomer: true}},
	{"a newcomer, a longer client-go lease", false, budget{writes: 1, strangers: 1, removals: 1, longer: true, newcomer: true, alone: true}},
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
