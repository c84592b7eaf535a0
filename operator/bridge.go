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
	asked   chan struct{} // closed when the lock is asked for first
	ask     func()

	lost error // why the leadership was lost; for Run, when the elector has ended

	mu      sync.Mutex
	leading bool // a term goes on, and the work behind it may begin or go on
	closed  bool // the work stops or has returned: no term begins
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
	return b
}

// Run runs work, which runs the LeaderElector and returns when all that this has
// started has stopped, with the elector beside it. It returns what work returns,
// joined with why leadership was lost (election.ErrLost), if it was.
// The elector begins to campaign when the lock is asked for first, so that it
// wins no term that nobody can use, and goes on until work has returned, also
// when ctx ends.
//
// The context of work ends with ctx, or when the leadership is given up in good
// order. It does not when leadership is lost: the LeaderElector sees that within
// its RenewDeadline, and ends. If work returns nil, the lease is released. If it
// returns an error, something may go on, so that the lease is left to run out.
func (b *Bridge) Run(ctx context.Context, work func(context.Context) error) error {
	working, endWork := context.WithCancelCause(ctx)
	electing, endElecting := context.WithCancel(context.WithoutCancel(ctx))
	defer endWork(nil)
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
	return errors.Join(err, b.lost, failed)
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
	if cause := context.Cause(ctx); errors.Is(cause, election.ErrLost) {
		b.lost = cause
		b.set(false)
	} else {
		endWork(cause)
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
	b.leading = leading && !b.closed
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

// nobody is the holder where none is known: to a LeaderElector an empty one
// means that it may take the lock.
const nobody = "(nobody)"

// Get answers from memory with who leads. It asks no server and never fails.
func (b *Bridge) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	b.ask()
	status := b.elector.Status()
	now := metav1.NewTime(time.Now()) // a record that changes is not expired
	r := &resourcelock.LeaderElectionRecord{HolderIdentity: nobody, AcquireTime: now, RenewTime: now}
	switch {
	case b.leads():
		r.HolderIdentity, r.AcquireTime = status.Identity, metav1.NewTime(status.Term.Began)
	case status.Holder != "" && status.Holder != status.Identity:
		r.HolderIdentity = status.Holder
	}
	raw, err := json.Marshal(struct {
		*resourcelock.LeaderElectionRecord
		Nanoseconds int64
	}{r, now.UnixNano()})
	return r, raw, err
}

// Create is not called, for Get always finds a record.
func (b *Bridge) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return b.Update(ctx, r)
}

// ErrBridgeTiming says that a LeaderElector would see too late that it has lost
// its leadership.
var ErrBridgeTiming = errors.New("LeaseDuration of the elector on the bridge is too long")

// Update succeeds for the holder, and as a release, which does nothing. No
// server is asked.
func (b *Bridge) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	grace := b.elector.Timing().StopGrace
	switch lease := time.Duration(r.LeaseDurationSeconds) * time.Second; {
	case r.HolderIdentity == "":
		return nil
	case lease > max(grace, BridgeLeaseDuration):
		return fmt.Errorf("%w: it is %v, and others may lead %v after the loss: use BridgeLeaseDuration, BridgeRenewDeadline and BridgeRetryPeriod", ErrBridgeTiming, lease, grace)
	case !b.leads():
		return election.ErrNotLeading
	}
	return nil
}

// RecordEvent does nothing: the elector posts its own Events.
func (b *Bridge) RecordEvent(string) {}

// Identity returns the elector's.
func (b *Bridge) Identity() string { return b.elector.Status().Identity }

// Describe names the elector's lock.
func (b *Bridge) Describe() string { return b.elector.Status().Lock.String() }
