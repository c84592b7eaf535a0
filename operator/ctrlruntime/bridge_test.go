// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ctrlruntime

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/leaderelection"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/memory"
)

var errUnstopped = errors.New("a runnable did not stop")

// replica is a program that has client-go's elector on a bridge.
type replica struct {
	*bridge
	link    *lockstest.Faulty
	cancel  context.CancelFunc
	started chan time.Time // gets the time when its work begins
	ended   chan time.Time // gets the time when its work is told to end
	over    chan error     // gets the result of Run
	slow    time.Duration  // how long its work takes to stop
	result  error          // of its work
}

func electorOf(t *testing.T, lock locks.Lock, identity string) *election.Elector {
	t.Helper()
	e, err := election.New(election.Config{
		Lock: lock, Candidate: locks.Candidate{Identity: identity},
		TakeoverDelay: func(election.Takeover) time.Duration { return 0 },
	})
	must(t, err)
	return e
}

func startReplica(t *testing.T, lock locks.Lock, identity string, change ...func(*replica)) *replica {
	t.Helper()
	r := &replica{
		link: lockstest.NewFaulty(lock), over: make(chan error, 1),
		started: make(chan time.Time, 10), ended: make(chan time.Time, 10),
	}
	for _, f := range change {
		f(r)
	}
	r.bridge = newBridge(electorOf(t, r.link, identity))
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	go func() { r.over <- r.run(ctx, r.work) }()
	return r
}

// work does the same as most programs with client-go's elector: it ends with it, and then
// waits for everything that it has started.
func (r *replica) work(ctx context.Context) error {
	stopped := make(chan struct{})
	begun := false
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: r, LeaseDuration: bridgeLeaseDuration, RenewDeadline: bridgeRenewDeadline, RetryPeriod: bridgeRetryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				begun = true
				r.started <- time.Now()
				<-ctx.Done()
				r.ended <- time.Now()
				time.Sleep(r.slow)
				close(stopped)
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	synctest.Wait() // OnStartedLeading is a goroutine of its own
	if begun {
		<-stopped
	}
	return r.result
}

func bridged(t *testing.T, f func(t *testing.T, lock *memory.Lock)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, memory.New("lock")) })
}

func holderOf(t *testing.T, lock locks.Lock) string {
	t.Helper()
	now, err := lock.Read(t.Context())
	must(t, err)
	return now.Record.Holder
}

func (r *replica) end(t *testing.T) {
	t.Helper()
	r.cancel()
	must(t, <-r.over)
}

// TestAClientGoElectorOnABridgeTakesOverAsItsWorkHasStopped, whatever it releases before. While it follows, it
// polls memory only.
func TestAClientGoElectorOnABridgeTakesOverAsItsWorkHasStopped(t *testing.T) {
	bridged(t, func(t *testing.T, lock *memory.Lock) {
		const slow = 2 * timing.DefaultStopTimeout
		a := startReplica(t, lock, "a", func(r *replica) { r.slow = slow })
		<-a.started
		b := startReplica(t, lock, "b")
		calls := func() int { return b.link.Calls("read") + b.link.Calls("write") + b.link.Calls("watch") }
		time.Sleep(time.Minute)
		before := calls()
		time.Sleep(time.Minute)
		if after := calls(); after != before {
			t.Errorf("an idle follower on a bridge made %d calls in a minute", after-before)
		}
		told := time.Now()
		a.end(t)
		if took := (<-b.started).Sub(told); took < slow || took > slow+3*bridgeRetryPeriod {
			t.Errorf("b began %v after a was told to stop, want %v and a poll", took, slow)
		}
		b.end(t)
		if holder := holderOf(t, lock); holder != "" {
			t.Errorf("the lock is held by %q", holder)
		}
	})
}

func TestALossIsSeenByTheClientGoElectorWithinItsRenewDeadline(t *testing.T) {
	bridged(t, func(t *testing.T, lock *memory.Lock) {
		a := startReplica(t, lock, "a", func(r *replica) { r.result = errUnstopped })
		began := <-a.started
		b := startReplica(t, lock, "b")
		synctest.Wait()
		a.link.Set(lockstest.Fault{Hang: true})
		const most = bridgeRenewDeadline + bridgeRetryPeriod
		if after := (<-a.ended).Sub(began); after < timing.DefaultRenewDeadline || after > timing.DefaultRenewDeadline+most {
			t.Errorf("the work was told %v after it began", after)
		}
		err := <-a.over
		if !errors.Is(err, election.ErrLost) || !errors.Is(err, errUnstopped) {
			t.Errorf("Run: %v", err)
		}
		<-b.started
		b.end(t)
	})
}

func TestALeaseIsLeftToRunOutForWorkThatHasNotStopped(t *testing.T) {
	bridged(t, func(t *testing.T, lock *memory.Lock) {
		a := startReplica(t, lock, "a", func(r *replica) { r.result = errUnstopped })
		<-a.started
		b := startReplica(t, lock, "b")
		time.Sleep(time.Minute)
		told := time.Now()
		a.cancel()
		if err := <-a.over; !errors.Is(err, errUnstopped) {
			t.Errorf("Run: %v", err)
		}
		if took := (<-b.started).Sub(told); took < timing.DefaultLeaseDuration-timing.DefaultRenewInterval {
			t.Errorf("b began %v after a had stopped", took)
		}
		b.end(t)
	})
}

func TestNoTermIsWonBeforeTheLockIsAskedForNorAfterTheEnd(t *testing.T) {
	bridged(t, func(t *testing.T, lock *memory.Lock) {
		b := newBridge(electorOf(t, lock, "a"))
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error)
		stop := make(chan struct{})
		go func() { over <- b.run(ctx, func(context.Context) error { <-stop; return nil }) }()
		time.Sleep(time.Hour)
		if holder := holderOf(t, lock); holder != "" {
			t.Errorf("before it was asked for the lock is held by %q", holder)
		}
		other := startReplica(t, lock, "other")
		<-other.started
		b.ask() // now it campaigns
		cancel()
		synctest.Wait()
		other.end(t)
		time.Sleep(time.Hour)
		if holder := holderOf(t, lock); holder != "" {
			t.Errorf("after its end the lock is held by %q", holder)
		}
		close(stop)
		must(t, <-over)
	})
}

func TestAResignationStopsTheClientGoElectorInGoodOrder(t *testing.T) {
	bridged(t, func(t *testing.T, lock *memory.Lock) {
		a := startReplica(t, lock, "a", func(r *replica) { r.slow = time.Second })
		<-a.started
		must(t, a.elector.(*election.Elector).Resign(t.Context()))
		must(t, <-a.over)
		if holder := holderOf(t, lock); holder != "" {
			t.Errorf("the lock is held by %q", holder)
		}
	})
}

// TestALossIsNoticedWithinTheStopGrace, whatever that is: others may lead then.
func TestALossIsNoticedWithinTheStopGrace(t *testing.T) {
	short := election.Timing{LeaseDuration: 4 * time.Second, RenewDeadline: 3 * time.Second, RenewInterval: time.Second}
	for _, t2 := range []election.Timing{{}, timing.Fast(), timing.Patient(), short} {
		grace := t2.WithDefaults().StopGrace
		deadline, err := renewDeadline(grace)
		if err != nil || deadline+bridgeRetryPeriod > grace/2 || float64(deadline) <= 1.2*float64(bridgeRetryPeriod) {
			t.Errorf("StopGrace %v: a RenewDeadline of %v, %v", grace, deadline, err)
		}
	}
	tooShort := self
	tooShort.Timing.StopGrace = 299 * time.Millisecond
	if _, err := NewManager(nowhere, options(), tooShort); err == nil || !strings.Contains(err.Error(), "use 300ms or longer") {
		t.Errorf("StopGrace 299ms: %v", err)
	}
}

func TestNoTermIsWonWhileTheWorkOfALostOneStops(t *testing.T) {
	bridged(t, func(t *testing.T, lock *memory.Lock) {
		a := startReplica(t, lock, "a", func(r *replica) { r.slow = time.Hour })
		<-a.started
		b := startReplica(t, lock, "b")
		time.Sleep(time.Minute)
		a.link.Set(lockstest.Fault{Hang: true})
		<-b.started
		a.link.Set(lockstest.Fault{})
		b.end(t)
		time.Sleep(time.Minute)
		if holder := holderOf(t, lock); holder != "" {
			t.Errorf("while a's former work stops the lock is held by %q", holder)
		}
		<-a.over
	})
}

// TestATermThatComesAfterTheEndOfTheWorkIsNotUsed: a lost term was won back too late.
func TestATermThatComesAfterTheEndOfTheWorkIsNotUsed(t *testing.T) {
	b := newBridge(nil)
	b.close()
	if b.begin() || b.use() {
		t.Error("a LeaderElector leads again while its work stops")
	}
}

func TestATermThatIsLostBeforeTheClientGoElectorHadItIsCampaignedForAgain(t *testing.T) {
	bridged(t, func(t *testing.T, lock *memory.Lock) {
		link := lockstest.NewFaulty(lock)
		b := newBridge(electorOf(t, link, "a"))
		b.ask()
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error)
		go func() { over <- b.run(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil }) }()
		synctest.Wait()
		link.Set(lockstest.Fault{Hang: true})
		time.Sleep(time.Minute)
		link.Set(lockstest.Fault{})
		time.Sleep(time.Minute)
		if !b.leads() {
			t.Errorf("it does not lead: %+v", b.elector.Status())
		}
		cancel()
		must(t, <-over)
	})
}
