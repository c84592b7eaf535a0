// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/election"
)

// The timing of a client-go elector on a Bridge: it polls memory, so it can
// poll often. RenewDeadline is how long it takes to see that a term was lost,
// and must leave a process that the machine is too busy for some slack.
const (
	BridgeLeaseDuration = time.Second
	BridgeRenewDeadline = 600 * time.Millisecond
	BridgeRetryPeriod   = 50 * time.Millisecond
)

// Bridge is a client-go resource lock in memory: the leaderelection.LeaderElector
// that is given it leads when the zonelect elector behind it does, with what
// that brings. Give that LeaderElector the timing above. Safe for concurrent use.
//
// A release by the LeaderElector, an update without holder, changes nothing: it
// comes when its context has ended, not when its work has stopped. The lease is
// released when the work given to Run has returned nil.
type Bridge struct {
	elector Leader
	asked   chan struct{} // closed when a LeaderElector asks for leadership first
	ask     func()
	over    context.Context // ends with why the Bridge cannot go on
	end     context.CancelCauseFunc

	mu      sync.Mutex
	leading bool   // a term goes on, and the work behind it may begin or go on
	used    bool   // the LeaderElector has led in this term
	closed  bool   // the work stops or has returned: no term begins
	stopped bool   // the LeaderElector has stopped leading
	lost    error  // why the leadership was lost while the LeaderElector had it
	holder  string // the last other candidate that led; empty where none is known
}

// Leader is an elector, with or without what package operator adds to it.
type Leader interface {
	Run(ctx context.Context, lead func(context.Context, election.Term) error) error
	Status() election.Status
	Timing() election.Timing
}

var _ resourcelock.Interface = (*Bridge)(nil)

// NewBridge returns a lock that follows elector, which must be run by the
// Bridge's Run alone.
func NewBridge(elector Leader) *Bridge {
	b := &Bridge{elector: elector, asked: make(chan struct{})}
	b.ask = sync.OnceFunc(func() { close(b.asked) })
	b.over, b.end = context.WithCancelCause(context.Background())
	return b
}

// Run runs work, which runs the LeaderElector and returns when all that this has
// started has stopped, with the elector beside it. It returns what work returns,
// joined with why leadership was lost (election.ErrLost), if it was, and with
// what is wrong with the LeaderElector (ErrBridgeTiming, ErrBridgeSpent).
// The elector begins to campaign when the LeaderElector does, so that it wins no
// term that nobody can use, and goes on until work has returned, also when ctx
// ends.
//
// The context of work ends with ctx, with such an error, or when the leadership
// is given up in good order. It does not when leadership is lost: the LeaderElector sees that within
// its RenewDeadline, and ends. If work returns nil, the lease is released. If it
// returns an error, something may go on, so that the lease is left to run out.
func (b *Bridge) Run(ctx context.Context, work func(context.Context) error) error {
	working, endWork := context.WithCancelCause(ctx)
	electing, endElecting := context.WithCancel(context.WithoutCancel(ctx))
	defer endWork(nil)
	defer context.AfterFunc(b.over, func() { endWork(context.Cause(b.over)) })()
	worked := make(chan error, 1)
	elected := make(chan error, 1)
	go func() {
		select {
		case <-b.asked:
			elected <- b.elector.Run(electing, func(ctx context.Context, _ election.Term) error {
				return b.lead(ctx, endWork, worked)
			})
			endWork(errors.New("the elector has ended"))
		case <-electing.Done():
			elected <- nil
		}
	}()
	defer context.AfterFunc(working, func() {
		if !b.close() {
			endElecting() // nobody leads: nobody shall begin to
		}
	})()
	err := work(working)
	b.close()
	worked <- err
	endElecting()
	failed := <-elected
	if err != nil && errors.Is(failed, election.ErrUnfinished) {
		failed = nil // it is err
	}
	return errors.Join(err, b.lossOf(), context.Cause(b.over), failed)
}

// lead is one term. It ends when the work has returned, whatever ends first.
func (b *Bridge) lead(ctx context.Context, endWork context.CancelCauseFunc, worked <-chan error) error {
	b.set(true)
	defer b.set(false)
	if !b.leads() {
		return nil // it is closed: a term that was lost was won back too late
	}
	select {
	case err := <-worked:
		return unfinished(err)
	case <-ctx.Done():
	}
	switch cause := context.Cause(ctx); {
	case !errors.Is(cause, election.ErrLost):
		endWork(cause)
	case !b.lose(cause):
		return nil // the LeaderElector never had it: campaign again
	}
	return unfinished(<-worked)
}

func unfinished(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", election.ErrUnfinished, err)
}

func (b *Bridge) set(leading bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leading, b.used = leading && !b.closed, false
}

// use lets the LeaderElector lead if a term goes on.
func (b *Bridge) use() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.leading {
		b.used, b.stopped, b.holder = true, false, ""
	}
	return b.leading
}

// lose ends a term that was lost, and reports whether the LeaderElector had it.
func (b *Bridge) lose(cause error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leading = false
	if b.used {
		b.lost = cause
	}
	return b.used
}

func (b *Bridge) lossOf() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lost
}

// spent reports whether the LeaderElector lost its leadership and has ended.
func (b *Bridge) spent() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lost != nil && b.stopped
}

// follow returns the last other candidate that is known to have led.
func (b *Bridge) follow() string {
	status := b.elector.Status()
	b.mu.Lock()
	defer b.mu.Unlock()
	if status.Holder != status.Identity && status.Holder != "" {
		b.holder = status.Holder
	}
	return b.holder
}

// close keeps terms from beginning, and reports whether one goes on.
func (b *Bridge) close() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return b.leading
}

func (b *Bridge) leads() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leading
}

// ErrBridgeSpent says that leadership was lost, and that this Bridge will not
// lead again.
var ErrBridgeSpent = errors.New("a Bridge leads once, and its leadership was lost: end the process, or make a new Election and a new Bridge when the work has stopped")

// Get answers from memory with who leads or led last. It asks no server. Where
// nobody is known it finds no record, so that a LeaderElector goes on to Create,
// which says what its LeaseDuration is and waits.
func (b *Bridge) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if b.spent() {
		b.end(ErrBridgeSpent)
		return nil, nil, ErrBridgeSpent
	}
	status := b.elector.Status()
	now := metav1.NewTime(time.Now()) // a record that changes is not expired
	r := &resourcelock.LeaderElectionRecord{HolderIdentity: b.follow(), LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now}
	if b.leads() {
		r.HolderIdentity, r.AcquireTime = status.Identity, metav1.NewTime(status.Term.Began)
	}
	if r.HolderIdentity == "" {
		return nil, nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), status.Lock.Name)
	}
	raw, err := json.Marshal(struct {
		*resourcelock.LeaderElectionRecord
		Nanoseconds int64
	}{r, now.UnixNano()})
	return r, raw, err
}

// Create campaigns. It returns nil when the LeaderElector leads, an error when
// another candidate does or ctx ends, and ErrBridgeTiming at once. It asks no
// server.
func (b *Bridge) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if err := b.admit(r); err != nil {
		return err
	}
	b.ask()
	poll := time.NewTicker(BridgeRetryPeriod)
	defer poll.Stop()
	for !b.use() {
		if holder := b.follow(); holder != "" {
			return fmt.Errorf("%w: %s leads", election.ErrNotLeading, holder)
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// ErrBridgeTiming says that a LeaderElector would see too late that it has lost
// its leadership.
var ErrBridgeTiming = errors.New("LeaseDuration of the LeaderElector on the Bridge is too long")

// admit refuses a LeaderElector that may go on for longer after a loss than the
// elector leaves its work. It ends the Bridge, since the LeaderElector would try
// for ever. The record has only the whole seconds of its LeaseDuration.
func (b *Bridge) admit(r resourcelock.LeaderElectionRecord) error {
	grace := b.elector.Timing().StopGrace
	lease := time.Duration(r.LeaseDurationSeconds) * time.Second
	if lease <= BridgeLeaseDuration || sightOfLoss(lease+time.Second) <= grace {
		return nil
	}
	err := fmt.Errorf("%w: it is %v, with which it may see only after %v that leadership was lost, and others may lead after %v: "+
		"set LeaseDuration to operator.BridgeLeaseDuration (%v), RenewDeadline to operator.BridgeRenewDeadline (%v) and RetryPeriod to operator.BridgeRetryPeriod (%v); "+
		"the timing of the Lease itself is operator.Options.Timing",
		ErrBridgeTiming, lease, sightOfLoss(lease), grace, BridgeLeaseDuration, BridgeRenewDeadline, BridgeRetryPeriod)
	b.end(err)
	return err
}

const jitterFactor = 1.2 // client-go's leaderelection.JitterFactor

// sightOfLoss is how long a LeaderElector with that LeaseDuration may take to see
// a loss: RetryPeriod + RenewDeadline. client-go wants RetryPeriod to be below
// RenewDeadline by its jitter factor, and RenewDeadline below LeaseDuration.
func sightOfLoss(lease time.Duration) time.Duration {
	return lease + time.Duration(float64(lease)/jitterFactor).Round(time.Millisecond)
}

// Update succeeds for the holder, and as a release, which does nothing. No
// server is asked.
func (b *Bridge) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	if r.HolderIdentity == "" {
		return nil
	}
	if err := b.admit(r); err != nil {
		return err
	}
	if !b.use() {
		return election.ErrNotLeading
	}
	return nil
}

// stoppedLeading is what a LeaderElector records when it ends after it has led.
const stoppedLeading = "stopped leading"

// RecordEvent posts nothing: the elector posts its own Events.
func (b *Bridge) RecordEvent(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = b.stopped || what == stoppedLeading
}

// Identity returns the elector's.
func (b *Bridge) Identity() string { return b.elector.Status().Identity }

// Describe names the elector's lock.
func (b *Bridge) Describe() string { return b.elector.Status().Lock.String() }
