// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ctrlruntime

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/election"
)

// The timing of the manager's LeaderElector on a bridge. It polls memory, so it can poll often. It
// notices a lost term within RenewDeadline and RetryPeriod. RenewDeadline must leave some slack for a
// process on a busy machine.
const (
	bridgeLeaseDuration = time.Second
	bridgeRenewDeadline = 600 * time.Millisecond
	bridgeRetryPeriod   = 50 * time.Millisecond
)

// renewDeadline returns the RenewDeadline of a LeaderElector that notices a loss within the StopGrace, with
// as much time again for the work if that is short.
func renewDeadline(grace time.Duration) (time.Duration, error) {
	deadline := min(bridgeRenewDeadline, grace/2-bridgeRetryPeriod)
	if deadline < 2*bridgeRetryPeriod {
		return 0, fmt.Errorf("StopGrace is %v: a manager needs half of it to notice that it no longer leads; use %v or longer",
			grace, 6*bridgeRetryPeriod)
	}
	return deadline, nil
}

// bridge is a client-go resource lock in memory. The LeaderElector of the manager that has it, with the
// timing above, leads when the zonelect elector behind it leads, with the same promises. Safe for
// concurrent use.
//
// A release by the LeaderElector, an update without a holder, changes nothing: the LeaderElector sends
// it when its context has ended, not when its work has stopped. The lease is released when the work
// given to run has returned nil.
type bridge struct {
	elector leader
	asked   chan struct{} // closed when the LeaderElector first asks for leadership
	ask     func()

	mu      sync.Mutex
	leading bool  // a term is in progress, and its work may begin or continue
	used    bool  // the LeaderElector has led in this term
	closed  bool  // the work stops or has returned: no term begins
	lost    error // why the leadership was lost while the LeaderElector had it; the elector's alone
}

// leader is an elector, with or without what package operator adds to it.
type leader interface {
	Run(ctx context.Context, lead func(context.Context, election.Term) error) error
	Status() election.Status
}

var _ resourcelock.Interface = (*bridge)(nil)

// newBridge returns a lock that follows elector. Only the bridge's run may run that elector.
func newBridge(elector leader) *bridge {
	b := &bridge{elector: elector, asked: make(chan struct{})}
	b.ask = sync.OnceFunc(func() { close(b.asked) })
	return b
}

// run runs work, the manager's Start, with the elector beside it. It returns what work returns, joined
// with the reason why leadership was lost (election.ErrLost), if it was. The elector begins to campaign
// when the LeaderElector does, when caches and webhooks run, so that it wins no term that nobody can use.
// It runs until work has returned, even when ctx ends.
//
// The context of work ends with ctx, or when leadership is given up in good order. It does not end when
// leadership is lost: the LeaderElector sees that within its RenewDeadline and RetryPeriod, and ends. If
// work returns nil, the lease is released. If work returns an error, something may still run, so the
// lease is left to expire.
func (b *bridge) run(ctx context.Context, work func(context.Context) error) error {
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
			endElecting() // nobody leads, and nobody may begin to
		}
	})()
	err := work(working)
	b.close()
	worked <- err
	endElecting()
	failed := <-elected
	if err != nil && errors.Is(failed, election.ErrUnfinished) {
		failed = nil // failed is the same error as err
	}
	return errors.Join(err, b.lost, failed)
}

// lead is one term. It ends when the work has returned, even if the term ended before.
func (b *bridge) lead(ctx context.Context, endWork context.CancelCauseFunc, worked <-chan error) error {
	if !b.begin() {
		return nil // a lost term was won back too late
	}
	defer b.end()
	select {
	case err := <-worked:
		return unfinished(err)
	case <-ctx.Done():
	}
	cause := context.Cause(ctx)
	switch {
	case !errors.Is(cause, election.ErrLost):
		endWork(cause)
	case b.end():
		b.lost = cause
	default:
		return nil // the LeaderElector never led in it: campaign again
	}
	return unfinished(<-worked)
}

func unfinished(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", election.ErrUnfinished, err)
}

// begin begins a term, unless the bridge is closed.
func (b *bridge) begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leading, b.used = !b.closed, false
	return b.leading
}

// end ends a term, and reports whether the LeaderElector led in it.
func (b *bridge) end() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leading = false
	return b.used
}

// close prevents new terms, and reports whether one is in progress.
func (b *bridge) close() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return b.leading
}

func (b *bridge) leads() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leading
}

// use lets the LeaderElector lead if a term is in progress.
func (b *bridge) use() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used = b.used || b.leading
	return b.leading
}

// Get asks no server. Its record is always another one, so that it does not expire. While this process does
// not lead, somebody else holds it: the LeaderElector does not care who.
func (b *bridge) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	b.ask()
	holder := "another"
	if b.leads() {
		holder = b.Identity()
	}
	now := metav1.Now()
	r := &resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now}
	return r, fmt.Append(nil, now.UnixNano(), holder), nil
}

// Create is never called, because Get finds a record.
func (b *bridge) Create(context.Context, resourcelock.LeaderElectionRecord) error {
	return fmt.Errorf("%w: a bridge has a record", election.ErrNotLeading)
}

// Update succeeds for the holder. It also succeeds as a release, which does nothing. It asks no server.
func (b *bridge) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	if r.HolderIdentity == "" || b.use() {
		return nil
	}
	return election.ErrNotLeading
}

// RecordEvent posts nothing: the elector posts its own Events.
func (b *bridge) RecordEvent(string) {}

// Identity returns the elector's identity.
func (b *bridge) Identity() string { return b.elector.Status().Identity }

// Describe names the elector's lock.
func (b *bridge) Describe() string { return b.elector.Status().Lock.String() }
