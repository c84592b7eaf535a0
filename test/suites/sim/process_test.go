// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// link is a process' way to the API.
type link interface{ Set(lockstest.Fault) }

// process is a candidate or another program, from its start to its end.
type process struct {
	name    string
	seat    int
	ours    bool
	forLife bool   // a program that leads for life
	kind    string // the name of the kind of other program
	world   *world
	judge   *judge
	dice    *rand.Rand
	advice  *rand.Rand // see pick
	drift   float64    // see drifts

	meant    election.Timing // what it is configured with
	timing   election.Timing // that timing, as its clock makes it
	lease    time.Duration   // the lease that it writes
	heeds    time.Duration   // the lease that it waits for, whatever the record says; else zero
	stopTime time.Duration   // how long its work takes to stop
	started  time.Time

	link        link
	gate        *gate
	processLock string        // empty if an earlier process of its seat had not ended
	back        atomic.Bool   // somebody put its record back
	gone        chan struct{} // closed when it is killed
	sick        *atomic.Bool
	elector     *election.Elector
	mayBegin    func()                // judges that work begins; nil means that it always may
	view        atomic.Pointer[sight] // the ConfigMap as it read or wrote it last, see wire
	armed       atomic.Pointer[sight] // the last view in which the shield was armed
	run         func(context.Context)
	fault       int // counts the faults of its link

	well time.Time // when its last fault is over, at the earliest

	crashed bool // judge's
	half    half // judge's
	cancel  context.CancelFunc
	done    chan struct{}
}

// sight is what a process saw, and when.
type sight struct {
	at     time.Time
	record ownerref.Record
}

// isDone reports whether the process has ended, by itself or because it was killed.
func (p *process) isDone() bool {
	select {
	case <-p.done:
	case <-p.gone:
	default:
		return false
	}
	return true
}

// saw returns the ConfigMap as p knows it.
func (p *process) saw() ownerref.Record {
	if s := p.view.Load(); s != nil {
		return s.record
	}
	return ownerref.Recognize(nil)
}

func (p *process) String() string {
	if p == nil {
		return "somebody"
	}
	return p.name
}

// keepTo makes p run with the timing that its seat selects from all.
func (p *process) keepTo(all []election.Timing) {
	p.meant = all[p.world.choices[p.seat]%len(all)]
	p.timing, p.lease = slowed(p.meant, p.drift), p.meant.LeaseDuration
}

// drifts are by how much a process' clock may run slower than the others'
// clocks, as fractions of the promised drift.
var drifts = []float64{1, 1, 0, 0.5, -1}

// slowed is the timing, in true time, of a process whose clock runs slow by a
// fraction of the promised drift: its durations take longer than it means.
func slowed(t election.Timing, part float64) election.Timing {
	rate := 1 - part*t.MaxClockDrift
	stretch := func(d time.Duration) time.Duration { return time.Duration(float64(d) / rate) }
	t.RenewDeadline, t.StopGrace = stretch(t.RenewDeadline), stretch(t.StopGrace)-time.Microsecond
	t.AttemptTimeout, t.StopTimeout, t.Precedence = stretch(t.AttemptTimeout), stretch(t.StopTimeout), stretch(t.Precedence)
	if part > 0 || t.Exclusive { // else it may not be below a second
		t.RenewInterval = stretch(t.RenewInterval)
	}
	t.MaxClockDrift = 1e-12 // used up
	return t
}

func (p *process) candidate() locks.Candidate {
	return locks.Candidate{Identity: p.name, Zone: fmt.Sprint("z", p.seat), Pod: locks.Pod{Name: p.name, UID: "uid-" + p.name}}
}

// pick returns a number below n, for any goroutine of p.
func (p *process) pick(n int) int {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	return p.advice.IntN(n)
}

// elect makes p a candidate for a lock.
func (p *process) elect(lock locks.Lock) {
	config := election.Config{Lock: lock, Timing: p.timing, WaitOnAbsent: true, Candidate: p.candidate()}
	if p.dice.IntN(3) == 0 { // a takeover delay only ever delays, even a negative one
		start := some(p.dice, p.timing.RenewInterval) - p.timing.RenewInterval/2
		config.TakeoverDelay = func(election.Takeover) time.Duration {
			p.gate.pass()
			return start
		}
	}
	if p.dice.IntN(4) == 0 {
		config.Logger = logr.New(&stalls{process: p, dice: rand.New(rand.NewPCG(p.world.seed, p.dice.Uint64()))})
	}
	if p.dice.IntN(2) == 0 {
		config.WatchPeers = p.peers
	}
	if p.dice.IntN(4) == 0 {
		config.Health = election.Health{
			Check: p.check, Interval: p.timing.LeaseDuration / 2, After: p.timing.LeaseDuration / 2,
		}
	}
	config.ProcessLock = func() string {
		p.gate.pass()
		return p.processLock
	}
	e, err := election.New(config)
	must(err)
	p.elector = e
	p.run = func(ctx context.Context) { _ = e.Run(ctx, p.work) } // the judge finds out why it ended
}

func (p *process) work(ctx context.Context, term election.Term) error {
	j := p.judge
	j.begin(p, term)
	j.trusts(p.world.current())
	<-ctx.Done()
	time.Sleep(p.stopTime)
	j.mu.Lock()
	crashed := p.crashed
	j.mu.Unlock()
	if crashed {
		return election.ErrUnfinished // it does not get to release anything
	}
	j.end(p)
	return ctx.Err()
}
