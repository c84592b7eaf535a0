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
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/election"
)

// The timing of a client-go elector on a Bridge. The elector polls memory, so it can poll
// often. It notices within RenewDeadline that a term was lost; RenewDeadline must leave some
// slack for a process on a busy machine.
const (
	bridgeLeaseDuration = time.Second
	bridgeRenewDeadline = 600 * time.Millisecond
	bridgeRetryPeriod   = 50 * time.Millisecond
)

// Bridge is a client-go resource lock in memory. The leaderelection.LeaderElector that uses
// it leads when the zonelect elector behind it leads, with the same promises. Make that
// LeaderElector from [Bridge.LeaderElection]. Safe for concurrent use.
//
// A release by the LeaderElector, an update without a holder, changes nothing: the
// LeaderElector sends it when its context has ended, not when its work has stopped. The lease
// is released when the work given to Run has returned nil.
type Bridge struct {
	elector leader
	timed   bool          // the LeaderElector has the configuration of LeaderElection
	asked   chan struct{} // closed when a LeaderElector first asks for leadership
	ask     func()
	over    context.Context // ends with the reason why the Bridge cannot go on
	end     context.CancelCauseFunc

	mu      sync.Mutex
	leading bool   // a term is in progress, and its work may begin or continue
	used    bool   // the LeaderElector has led in this term
	led     bool   // the LeaderElector has led
	closed  bool   // the work stops or has returned: no term begins
	stopped bool   // the LeaderElector has stopped leading
	lost    error  // why the leadership was lost while the LeaderElector had it
	holder  string // the last other candidate that led; empty where none is known
}

// leader is an elector, with or without what package operator adds to it.
type leader interface {
	Run(ctx context.Context, lead func(context.Context, election.Term) error) error
	Status() election.Status
	Timing() election.Timing
}

var _ resourcelock.Interface = (*Bridge)(nil)

// NewBridge returns a lock that follows elector. Only the Bridge's Run may run that elector.
func NewBridge(elector leader) *Bridge {
	b := &Bridge{elector: elector, asked: make(chan struct{})}
	b.ask = sync.OnceFunc(func() { close(b.asked) })
	b.over, b.end = context.WithCancelCause(context.Background())
	return b
}

// LeaderElection returns the configuration of a LeaderElector on the Bridge, with the timing that it
// needs. Add the Callbacks. Call it before Run.
//
// A LeaderElector with a configuration of its own works as well, if its timing is as short. The Bridge
// checks that before it campaigns. Only Create tells it the timing, and if another candidate leads,
// client-go logs the answer to that as an error: "error initially creating ...".
func (b *Bridge) LeaderElection() leaderelection.LeaderElectionConfig {
	b.timed = true
	return leaderelection.LeaderElectionConfig{
		Lock: b, LeaseDuration: bridgeLeaseDuration, RenewDeadline: bridgeRenewDeadline, RetryPeriod: bridgeRetryPeriod,
	}
}

// Run runs work with the elector beside it. work runs the LeaderElector and returns when
// everything that the LeaderElector started has stopped. Run returns what work returns,
// joined with the reason why leadership was lost (election.ErrLost), if it was, and with what
// is wrong with the LeaderElector (ErrBridgeTiming, ErrBridgeSpent). The elector begins to
// campaign when the LeaderElector does, so that it wins no term that nobody can use. It runs
// until work has returned, even when ctx ends.
//
// The context of work ends with ctx, with such an error, or when leadership is given up in
// good order. It does not end when leadership is lost: the LeaderElector sees that within its
// RenewDeadline, and ends. If work returns nil, the lease is released. If work returns an
// error, something may still run, so the lease is left to expire.
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
	return errors.Join(err, b.lossOf(), context.Cause(b.over), failed)
}

// lead is one term. It ends when the work has returned, even if the term ended before.
func (b *Bridge) lead(ctx context.Context, endWork context.CancelCauseFunc, worked <-chan error) error {
	b.set(true)
	defer b.set(false)
	if !b.leads() {
		return nil // the Bridge is closed: a lost term was won back too late
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

func (b *Bridge) set(leading bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leading, b.used = leading && !b.closed, false
}

// use lets the LeaderElector lead if a term is in progress.
func (b *Bridge) use() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.leading {
		b.used, b.led, b.stopped, b.holder = true, true, false, ""
	}
	return b.leading
}

// Led reports whether the LeaderElector has led. If it has, it has called OnStartedLeading, or is
// about to, and that must return before the work of Run does.
func (b *Bridge) Led() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.led
}

// lose ends a term that was lost, and reports whether the LeaderElector led in it.
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

// close prevents new terms, and reports whether one is in progress.
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

// ErrBridgeSpent says that leadership was lost, and that this Bridge will not lead again.
var ErrBridgeSpent = errors.New("a Bridge leads once, and its leadership was lost: end the process, or make a new Election and a new Bridge when the work has stopped")

// nobody is who holds the record that a LeaderElector gets whose context ended before anybody was
// known to lead. Any error would be logged as one.
const nobody = "(nobody is known)"

// Get answers from memory, without asking a server, with the identity that leads or led last.
// If none is known, a Bridge whose LeaderElection was asked for campaigns, and waits until one is, unless it has led:
// then the LeaderElector is to end. Another finds no record, so that a LeaderElector calls Create, which
// passes its LeaseDuration and waits.
func (b *Bridge) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if b.spent() {
		b.end(ErrBridgeSpent)
		return nil, nil, ErrBridgeSpent
	}
	holder, own := b.sight()
	if b.timed {
		b.ask()
		poll := time.NewTicker(bridgeRetryPeriod)
		defer poll.Stop()
		for ; holder == "" && !b.Led() && ctx.Err() == nil; holder, own = b.sight() {
			select {
			case <-poll.C:
			case <-ctx.Done():
			}
		}
		if holder == "" && !b.Led() {
			holder = nobody
		}
	}
	status := b.elector.Status()
	if holder == "" {
		return nil, nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), status.Lock.Name)
	}
	now := metav1.NewTime(time.Now()) // a record that changes is not expired
	r := &resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now}
	if own {
		r.AcquireTime = metav1.NewTime(status.Term.Began)
	}
	raw, err := json.Marshal(struct {
		*resourcelock.LeaderElectionRecord
		Nanoseconds int64
	}{r, now.UnixNano()})
	return r, raw, err
}

// sight returns the identity that leads or led last, and whether this process leads.
func (b *Bridge) sight() (holder string, own bool) {
	if b.leads() {
		return b.Identity(), true
	}
	return b.follow(), false
}

// Create campaigns. It returns nil when the LeaderElector leads, an error when another
// candidate leads or ctx ends, and ErrBridgeTiming at once. It asks no server.
func (b *Bridge) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if err := b.admit(r); err != nil {
		return err
	}
	b.ask()
	poll := time.NewTicker(bridgeRetryPeriod)
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

// ErrBridgeTiming says that a LeaderElector would notice the loss of its leadership too late.
var ErrBridgeTiming = errors.New("LeaseDuration of the LeaderElector on the Bridge is too long")

// admit refuses a LeaderElector that may continue after a loss for longer than the elector
// allows its work. It ends the Bridge, because the LeaderElector would retry forever. The
// record has only the whole seconds of its LeaseDuration.
func (b *Bridge) admit(r resourcelock.LeaderElectionRecord) error {
	grace := b.elector.Timing().StopGrace
	lease := time.Duration(r.LeaseDurationSeconds) * time.Second
	if lease <= bridgeLeaseDuration || sightOfLoss(lease+time.Second) <= grace {
		return nil
	}
	err := fmt.Errorf("%w: it is %v, with which it may see only after %v that leadership was lost, and others may lead after %v: "+
		"make its configuration with Bridge.LeaderElection (LeaseDuration %v, RenewDeadline %v, RetryPeriod %v); "+
		"the timing of the Lease itself is operator.Options.Timing",
		ErrBridgeTiming, lease, sightOfLoss(lease), grace, bridgeLeaseDuration, bridgeRenewDeadline, bridgeRetryPeriod)
	b.end(err)
	return err
}

const jitterFactor = 1.2 // client-go's leaderelection.JitterFactor

// sightOfLoss is how long a LeaderElector with that LeaseDuration may take to see a loss:
// RetryPeriod + RenewDeadline. client-go requires RetryPeriod to be below RenewDeadline by
// its jitter factor, and RenewDeadline to be below LeaseDuration.
func sightOfLoss(lease time.Duration) time.Duration {
	return lease + time.Duration(float64(lease)/jitterFactor).Round(time.Millisecond)
}

// Update succeeds for the holder. It also succeeds as a release, which does nothing. It asks
// no server.
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

// stoppedLeading is the event that a LeaderElector records when it ends after it has led.
const stoppedLeading = "stopped leading"

// RecordEvent posts nothing: the elector posts its own Events.
func (b *Bridge) RecordEvent(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = b.stopped || what == stoppedLeading
}

// Identity returns the elector's identity.
func (b *Bridge) Identity() string { return b.elector.Status().Identity }

// Describe names the elector's lock.
func (b *Bridge) Describe() string { return b.elector.Status().Lock.String() }
