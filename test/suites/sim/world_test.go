// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/locks/lockstest"
)

// population says what campaigns for which lock, and what may happen to it.
type population struct {
	name    string
	seats   int // processes at a time
	steps   int // of a schedule
	faults  []fault
	mixes   []mix
	cluster func(*world) cluster
	// margin is what the bounds add for the time that other programs take.
	margin time.Duration
	coarse bool // its watches may skip states
}

// cluster is what processes run on.
type cluster interface {
	// join sets what p runs, and its link.
	join(p *process)
	// harm does the steps that affect only the cluster.
	harm(s step)
	// mend ends all faults of the cluster.
	mend()
}

// world is one run of a schedule, in a bubble of virtual time.
type world struct {
	schedule
	judge   *judge
	cluster cluster
	replace func(*process) // ends it in good order, and starts another one
	fronts  *fronts        // the API servers; nil if there are none
	start   time.Time
	mended  atomic.Bool
	dice    *rand.Rand              // for the steps that run under the judge's lock
	hides   atomic.Int32            // how often the record is deleted right after its creation
	again   atomic.Pointer[process] // the process that is cut off as soon as the record is deleted again
	sick    time.Time               // when a process was last made unfit

	mu      sync.Mutex
	choices []int      // of timings, by seat
	count   int        // of processes
	seats   []*process // nil where a process is still to come
	all     []*process
	closed  bool // no more processes come
	over    bool
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// result is the outcome of a run.
type result struct {
	faults    []string // broken rules
	failovers int
	overlaps  map[string]int
	virtual   time.Duration
}

// How long a goroutine that never waits keeps the only core of an ordered run
// before others get it. No run takes longer than forEver.
const (
	slice   = 10 * time.Second
	forEver = 195 * time.Second
)

// play runs a schedule.
func play(t *testing.T, s schedule, log func(string, ...any)) (r result) {
	defer func() {
		if failure := recover(); failure != nil {
			r.faults = append(r.faults, fmt.Sprint("panic: ", failure))
		}
	}()
	defer time.AfterFunc(forEver, func() { panic(fmt.Sprintf("there is no end to %v", s)) }).Stop()
	start := time.Now()
	defer func() {
		if took := time.Since(start); ordered && took > slice {
			r.faults = append(r.faults, fmt.Sprintf("something went on without a pause: the run took %v", took))
		}
	}()
	defer follow(s.seed, s.order)()
	synctest.Test(t, func(*testing.T) {
		w := &world{schedule: s, judge: newJudge(log), start: time.Now(), seats: make([]*process, s.seats)}
		w.dice = rand.New(rand.NewPCG(s.seed, 3))
		for range w.seats {
			w.choices = append(w.choices, w.dice.IntN(2))
		}
		w.judge.made, w.replace = w.hideAgain, w.restart
		w.cluster = s.population.cluster(w)
		w.play()
		r = result{faults: w.judge.verdict(), failovers: w.judge.failovers, overlaps: w.judge.overlaps, virtual: time.Since(w.start)}
	})
	return r
}

func (w *world) play() {
	for seat := range w.seats {
		w.enter(seat)
	}
	var stale time.Time // until then a cache may be behind
	for _, s := range w.steps {
		time.Sleep(time.Until(w.start.Add(s.at)))
		if len(w.judge.verdict()) > 0 {
			break
		}
		w.judge.trusts(w.current())
		w.judge.endure(w.mix.lease()+2*w.mix.interval(), stale)
		w.suffer(s)
		if until := time.Now().Add(s.lasts); slices.Contains(onCaches, s.fault) && until.After(stale) {
			stale = until
		}
	}
	w.mend()
	w.live()
	w.close()
}

// current are the processes that run.
func (w *world) current() []*process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.seats), func(p *process) bool { return p == nil })
}

// processLock returns the process lock of the next process of a seat; empty if an earlier one still has it, or
// if the record of one was put back.
func (w *world) processLock(seat int) string {
	for _, q := range w.all {
		if q.seat == seat && (q.back.Load() || q.processLock != "" && !q.isDone()) {
			return ""
		}
	}
	return fmt.Sprintf("seat %d/%d", seat, w.count)
}

// enter starts a process in a free seat.
func (w *world) enter(seat int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.seats[seat] != nil {
		return
	}
	n, processLock := w.count, w.processLock(seat)
	w.count++
	p := &process{
		processLock: processLock,
		name:        fmt.Sprintf("c%d.%d", seat, n), seat: seat, ours: true, kind: "candidate", world: w,
		dice: rand.New(rand.NewPCG(w.seed, uint64(1000+n))), advice: rand.New(rand.NewPCG(w.seed, uint64(2000+n))), started: time.Now(),
		done: make(chan struct{}), gone: make(chan struct{}), gate: &gate{}, sick: &atomic.Bool{}, judge: w.judge,
	}
	p.drift = drifts[p.dice.IntN(len(drifts))]
	p.keepTo(w.mix.ours)
	p.stopTime = some(p.dice, max(p.timing.StopGrace, time.Millisecond+1))
	if p.dice.IntN(3) == 0 {
		p.stopTime = p.timing.StopGrace
	}
	w.cluster.join(p)
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	w.seats[seat] = p
	w.all = append(w.all, p)
	w.judge.log("%.3fs %s starts", time.Since(w.start).Seconds(), p.name)
	go func() {
		defer close(p.done)
		p.run(ctx)
	}()
}

// suffer does a step.
func (w *world) suffer(s step) {
	w.judge.log("%.3fs STEP %v", time.Since(w.start).Seconds(), s)
	if s.seat == leaderSeat {
		s.seat = 0
		if p := w.judge.leads(); p != nil {
			s.seat = p.seat
		}
	}
	w.mu.Lock()
	p := w.seats[s.seat]
	w.mu.Unlock()
	if f, ok := linkFault(s); ok {
		if p != nil {
			w.inject(p, f, s.lasts)
		}
		return
	}
	switch s.fault {
	case outage:
		for _, p := range w.current() {
			w.inject(p, lockstest.Fault{Hang: true}, s.lasts)
		}
	case crash:
		w.crash(p, s.lasts)
	case restart:
		if p != nil {
			w.replace(p)
		}
	case resign:
		if p != nil && p.elector != nil {
			go func() { _ = p.elector.Resign(context.Background()) }()
		}
	case freeze:
		if p != nil && p.ours {
			p.gate.shut()
			w.mu.Lock()
			p.ail(s.lasts)
			w.mu.Unlock()
			time.AfterFunc(s.lasts, p.gate.open)
		}
	case sicken:
		if p != nil {
			w.sick = time.Now()
			p.sick.Store(true)
			time.AfterFunc(s.lasts+p.lease, func() { p.sick.Store(false) })
		}
	case retime:
		w.roll(s)
	case stall, trail, revert:
		w.fronts.harm(s)
	case meddle:
		if w.mix.even() {
			w.crash(p, s.lasts) // because the leases do not differ
			return
		}
		w.tamper(s)
	case empty, garble, putBack:
		if !w.tamperedWith() {
			w.cluster.harm(s)
		}
	case remove, hide:
		if !w.mayDelete() {
			return
		}
		if s.fault == hide && w.mix.even() && !w.population.coarse {
			w.hides.Store(1 + int32(s.degree/time.Millisecond%2))
		}
		w.cluster.harm(s)
	default:
		w.cluster.harm(s)
	}
}

// replaces reports whether an empty step removes everything that the record says. A process that
// never saw the duration goes by its own lease, so all must have the same.
func (w *world) replaces(s step) bool { return s.degree/time.Millisecond%2 == 1 && w.mix.even() }

// roll replaces all processes, one after the other, by ones of another timing:
// all of the same, or each of any.
func (w *world) roll(s step) {
	all := int(s.degree / time.Millisecond)
	for seat := range w.seats {
		choice := all / 2
		if all%2 == 1 {
			choice >>= seat
		}
		time.AfterFunc(s.lasts*time.Duration(seat)/time.Duration(len(w.seats)), func() { w.reconfigure(seat, choice) })
	}
}

// reconfigure replaces the process in a seat by one of another timing. If the seat
// is empty, the next process has that timing.
func (w *world) reconfigure(seat, choice int) {
	w.mu.Lock()
	p := w.seats[seat]
	same := w.choices[seat]%2 == choice%2
	w.choices[seat] = choice
	w.mu.Unlock()
	if p != nil && !same && !w.mended.Load() {
		w.replace(p)
	}
}

// mayDelete reports whether somebody may delete the record. If no time frees it, only candidates that
// start later would take the lock then. If leases differ, a
// candidate that recreates it cannot know how long a holder in between, whose
// record was deleted too, may still work. That is safe up to twice the candidate's
// own lease, and only once in a while. If watches skip states, the candidate
// cannot know of a second deletion either.
func (w *world) mayDelete() bool {
	switch {
	case !w.judge.settled(0):
		return false
	case w.mix.even() && !w.population.coarse:
		return true
	case w.mix.lease() > 2*w.mix.least() || w.tamperedWith():
		return false
	}
	return w.judge.settled(5 * w.mix.lease())
}

// hideAgain soon deletes a record that a process has recreated, if it is to be
// deleted again. During tampering it deletes only the victim's record.
func (w *world) hideAgain(by *process) {
	if victim := w.again.Load(); victim != nil && victim != by {
		w.hides.Store(0)
		w.again.Store(nil)
		return
	}
	if w.hides.Add(-1) >= 0 {
		time.AfterFunc(some(w.dice, 10*time.Millisecond), func() {
			w.cluster.harm(step{fault: hide})
			if p := w.again.Swap(nil); p != nil {
				w.inject(p, lockstest.Fault{Hang: true}, p.lease)
			}
		})
	}
}

// linkFaults are the effects of steps on the way of one process, besides those of a degree.
var linkFaults = map[fault]lockstest.Fault{
	cut: {Hang: true}, oneWay: {LoseAnswers: true, Mute: true}, mute: {Mute: true}, lose: {LoseAnswers: true},
	pause: {Late: true}, pretend: {Unstored: true},
}

func linkFault(s step) (f lockstest.Fault, ok bool) {
	switch s.fault {
	case slow:
		return lockstest.Fault{Delay: s.degree}, true
	case refuse:
		return lockstest.Fault{Err: refusals[int(s.degree/time.Millisecond)%len(refusals)]}, true
	}
	f, ok = linkFaults[s.fault]
	return f, ok
}

// inject makes a process's link fail for a while, or until the next fault.
func (w *world) inject(p *process, f lockstest.Fault, lasts time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.fault++
	n := p.fault
	p.link.Set(f)
	p.ail(lasts)
	time.AfterFunc(lasts, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if p.fault == n {
			p.link.Set(lockstest.Fault{})
		}
	})
}

// crash ends a process as SIGKILL does. What it has sent may still arrive.
func (w *world) crash(p *process, away time.Duration) {
	if p == nil {
		return
	}
	w.judge.crash(p)
	w.mu.Lock()
	p.fault++
	p.link.Set(lockstest.Fault{Err: errCrashed})
	w.seats[p.seat] = nil
	w.mu.Unlock()
	close(p.gone)
	p.gate.open()
	p.cancel()
	time.AfterFunc(away, func() { w.enter(p.seat) })
}

// restart ends a process in good order; the next one starts at once.
func (w *world) restart(p *process) {
	w.mu.Lock()
	w.seats[p.seat] = nil
	w.mu.Unlock()
	p.cancel()
	w.enter(p.seat)
}

// mend ends all faults, and fills all seats.
func (w *world) mend() {
	w.judge.log("%.3fs all is mended", time.Since(w.start).Seconds())
	w.mended.Store(true)
	w.hides.Store(0)
	w.again.Store(nil)
	if w.fronts != nil {
		w.fronts.mend()
	}
	w.cluster.mend()
	w.mu.Lock()
	for _, p := range w.all {
		if w.seats[p.seat] == p || !p.crashed {
			p.fault++
			p.link.Set(lockstest.Fault{})
			p.gate.open()
			p.sick.Store(false)
		}
	}
	w.mu.Unlock()
	for seat := range w.seats {
		w.enter(seat)
	}
}

// close ends all processes.
func (w *world) close() {
	w.mu.Lock()
	w.closed, w.over = true, true
	w.mu.Unlock()
	for _, p := range w.all {
		p.cancel()
		p.gate.open()
	}
	for _, p := range w.all {
		<-p.done
	}
	w.cluster.mend()
}
