// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// Config is what the locks of a process share, and their Heart.
type Config struct {
	// Client talks to the API group coordination.k8s.io/v1. Required.
	Client    rest.Interface
	Namespace string // of the Leases; required
	// View follows the Leases of the namespace. Required; it must run.
	View *leasewatch.View
	// Heart keeps the locks that this process holds. Nil means that each renews itself.
	Heart *Heart
	// Writes are the writes of the locks that have the same View. Required.
	Writes *Writes
	// Allow, if set, is called before the first write of each lock, and says why there may be
	// none. Calls for different locks are as few at a time as their writes.
	Allow func(ctx context.Context, name string) error
	// Shared is the name under which the candidates of all locks announce themselves. Each
	// Lease notes it, for tools. Empty means that each lock's candidates use its own name.
	Shared string
	// Labels are set on each Lease that is written. Its other labels are kept.
	Labels map[string]string
	// Logger gets warnings about records that are odd but valid. The zero Logger drops
	// them.
	Logger logr.Logger
}

// Lock is a [locks.Lock] on a Lease, see the package comment. All methods are safe for
// concurrent use.
type Lock struct {
	Config
	name   string
	object rawapi.Object[coordinationv1.Lease, *coordinationv1.Lease]
	long   record.LongWarning

	allowed atomic.Bool
}

var (
	_ locks.Feeder  = (*Lock)(nil)
	_ locks.Crowded = (*Lock)(nil)
)

// New returns the lock on the Lease of that name, or an error that lists everything that is
// wrong. It does no I/O.
func (c Config) New(name string) (*Lock, error) {
	object := apierror.Object{Resource: apierror.Leases, Namespace: c.Namespace, Name: name}
	err := rawapi.Check(c.Client, object)
	if c.View == nil || c.Writes == nil {
		err = errors.Join(err, errors.New("it needs a View and Writes"))
	}
	if err != nil {
		return nil, fmt.Errorf("lease lock %q in namespace %q: %w", name, c.Namespace, err)
	}
	return &Lock{Config: c, name: name, object: rawapi.New[coordinationv1.Lease](c.Client, object)}, nil
}

// Describe returns the Lease's name. It does no I/O.
func (l *Lock) Describe() locks.Description {
	return locks.Description{Kind: "Lease", Namespace: l.Namespace, Name: l.name}
}

// Crowd returns the name under which the candidates announce themselves. It does no I/O.
func (l *Lock) Crowd() string { return cmp.Or(l.Shared, l.name) }

// Read returns the record by a linearizable list of all Leases, which concurrent reads share. If
// that does not show the heartbeat's Lease, because nobody has asked for it before, it makes
// another one.
func (l *Lock) Read(ctx context.Context) (locks.Snapshot, error) {
	for names := []string{l.name}; ; {
		r, err := l.View.Read(ctx, names...)
		if err != nil {
			return locks.Snapshot{}, fmt.Errorf("%v: %w", l.Describe(), err)
		}
		s, cut := l.composed(r.Get(l.name), r.Get)
		if cut == "" {
			return s, nil
		}
		if slices.Contains(names, cut) {
			return locks.Snapshot{}, fmt.Errorf("%v: the Lease %s is too long to be read: remove what makes it long", l.Describe(), cut)
		}
		names = append(names, cut)
	}
}

// composed returns the snapshot of a state of the lock's Lease, or which Lease is cut, so that
// nothing is known of the lock. get returns the state of another Lease at the same moment.
func (l *Lock) composed(lock leasewatch.State, get func(name string) leasewatch.State) (s locks.Snapshot, cut string) {
	if lock.Cut {
		return locks.Snapshot{}, l.name
	}
	if lock.Lease == nil {
		return locks.Snapshot{}, ""
	}
	var heart leasewatch.State
	if a, attached := attachmentOf(lock.Lease); attached {
		if heart = get(a.name); heart.Cut {
			return locks.Snapshot{}, a.name
		}
	}
	s = compose(lock.Lease, heart)
	l.long.See(l.Logger, l.Describe(), s.Record)
	return s, ""
}

// Write writes the record. If a heartbeat keeps the lock and nothing but the renewTime would
// change, it writes nothing, and returns once a heartbeat has landed while the Lease was still
// at base (L1). That heartbeat may have been sent before the call: locks.Dispatch hears from
// when trust counts. If another process's heartbeat keeps the lock, it withdraws that first
// (L2).
func (l *Lock) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	if err := record.Check(r); err != nil {
		return locks.Snapshot{}, l.object.Name().Explain(apierror.Update, err)
	}
	was := stateOf(base)
	if base.Exists() && was == nil {
		return locks.Snapshot{}, l.object.Name().Explain(apierror.Update, fmt.Errorf("the version to replace (%T) was not read from this Lease", base.Opaque))
	}
	defer l.Heart.writing(l.name)()
	to, err := l.keeper(ctx, r)
	if err != nil {
		return locks.Snapshot{}, err
	}
	wanted := l.wanted(was, r, to)
	kept := to != (attachment{}) && was != nil && was.attachment == to
	if kept && onlyRenews(was.lease, wanted) {
		return l.renew(ctx, was)
	}
	if was != nil && l.taken(was) {
		return locks.Snapshot{}, fmt.Errorf("%v: %w", l.Describe(), locks.ErrConflict)
	}
	if r.Holder == "" && was != nil && l.Heart.owns(was.attachment) {
		if s, tried, err := l.releaseWithOthers(ctx, was, r); tried {
			return s, err
		}
	}
	if was != nil && was.mayBeat && !l.Heart.owns(was.attachment) {
		if err := l.withdraw(ctx, was); err != nil {
			return locks.Snapshot{}, err
		}
	}
	leave, err := l.turn(ctx, was, wanted, kept)
	if errors.Is(err, errBusy) {
		return l.renew(ctx, was)
	}
	if err != nil {
		return locks.Snapshot{}, fmt.Errorf("%v: %w", l.Describe(), err)
	}
	defer leave()
	return l.write(ctx, was, wanted, to)
}

// errBusy says that other writes kept a write that can wait from being sent.
var errBusy = errors.New("other writes come first")

// turn waits until the write may be sent. If a heartbeat keeps the lock, a write that only
// notes the token of its term waits for a RenewInterval at most. Then a heartbeat renews the
// lock, and the token is for the next renewal: such notes neither delay whoever takes many
// locks, nor cost a term.
func (l *Lock) turn(ctx context.Context, was *state, wanted *coordinationv1.Lease, kept bool) (leave func(), err error) {
	if !kept || !onlyNotes(was.lease, wanted) {
		return l.Writes.enter(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, l.Heart.config.Timing.RenewInterval, errBusy)
	defer cancel()
	return l.Writes.enter(ctx)
}

// keeper returns the heartbeat that is to keep a record; none if the record has no holder, or
// if this process has no heartbeat now.
func (l *Lock) keeper(ctx context.Context, r locks.Record) (attachment, error) {
	if l.Heart == nil || r.Holder == "" {
		return attachment{}, nil
	}
	a, err := l.Heart.current(ctx)
	a.lease = r.LeaseDuration
	if a.epoch == "" {
		a = attachment{}
	}
	return a, err
}

// wanted returns the Lease to write.
func (l *Lock) wanted(was *state, r locks.Record, to attachment) *coordinationv1.Lease {
	var old *coordinationv1.Lease
	if was != nil {
		old = was.lease
	}
	lease := record.Write(old, r)
	if delete(lease.Annotations, record.AnnotationShared); l.Shared != "" && l.Shared != l.name {
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, record.AnnotationShared, l.Shared)
	}
	record.SetLabels(lease, l.Labels)
	if to != (attachment{}) {
		return attach(lease, to)
	}
	return detach(lease)
}

// onlyRenews reports whether two Leases differ in their renewTime alone.
func onlyRenews(was, wanted *coordinationv1.Lease) bool {
	return maps.Equal(was.Annotations, wanted.Annotations) && maps.Equal(was.Labels, wanted.Labels) &&
		equal(was.Spec.HolderIdentity, wanted.Spec.HolderIdentity) &&
		equal(was.Spec.LeaseDurationSeconds, wanted.Spec.LeaseDurationSeconds) &&
		equal(was.Spec.LeaseTransitions, wanted.Spec.LeaseTransitions) &&
		was.Spec.AcquireTime != nil && wanted.Spec.AcquireTime != nil &&
		was.Spec.AcquireTime.UnixMicro() == wanted.Spec.AcquireTime.UnixMicro()
}

// onlyNotes reports whether two Leases differ in their renewTime and in what a renewal of a
// term notes first: about the term, and about a container that was not known before.
func onlyNotes(was, wanted *coordinationv1.Lease) bool {
	noted := was.DeepCopy()
	for _, key := range []string{record.AnnotationToken, record.AnnotationTrace, record.AnnotationContainerID} {
		if to, is := wanted.Annotations[key]; is {
			metav1.SetMetaDataAnnotation(&noted.ObjectMeta, key, to)
		}
	}
	return onlyRenews(noted, wanted)
}

func equal[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// renew waits for a heartbeat that renews the lock.
func (l *Lock) renew(ctx context.Context, was *state) (locks.Snapshot, error) {
	beat, err := l.Heart.renew(ctx, l.name, was.attachment)
	for err == nil && beat.repeats(was) {
		beat, err = l.Heart.renew(ctx, l.name, was.attachment)
	}
	if err != nil {
		return locks.Snapshot{}, fmt.Errorf("%v: renewing by heartbeat: %w", l.Describe(), err)
	}
	if !beat.holds(was) {
		return locks.Snapshot{}, fmt.Errorf("%v: renewing by heartbeat: %w", l.Describe(), locks.ErrConflict)
	}
	s := compose(was.lease, beat.state())
	if s.Void != "" {
		return locks.Snapshot{}, fmt.Errorf("%v: %s: %w", l.Describe(), s.Void, locks.ErrConflict)
	}
	return s, nil
}

// taken reports whether the Lease is known to have changed since a write was asked for, which
// may have waited for many others.
func (l *Lock) taken(was *state) bool {
	now, known := l.View.GetSince(l.name, was.number())
	return known && now.Number > was.number()
}

// write replaces the lock's Lease, or creates it.
func (l *Lock) write(ctx context.Context, was *state, lease *coordinationv1.Lease, to attachment) (locks.Snapshot, error) {
	if was != nil && l.taken(was) {
		return locks.Snapshot{}, fmt.Errorf("%v: %w", l.Describe(), locks.ErrConflict)
	}
	if l.Allow != nil && !l.allowed.Load() {
		d := locks.DispatchOf(ctx)
		d.Held()
		if err := l.Allow(ctx, l.name); err != nil {
			return locks.Snapshot{}, err
		}
		l.allowed.Store(true)
		d.Sent()
	}
	send := l.object.Update
	if was == nil {
		send = l.object.Create
	}
	if l.Heart != nil {
		goesOn := to != (attachment{}) && record.Read(lease).Details.Token != 0
		lease.Spec.RenewTime.Time = l.Heart.unlike(lease.Spec.RenewTime.Time, goesOn)
	}
	lease, err := send(ctx, lease)
	if err != nil {
		return locks.Snapshot{}, err
	}
	lease.ManagedFields = nil
	if l.Heart != nil {
		l.Heart.wrote(l.name, to)
	}
	var heart leasewatch.State
	if to != (attachment{}) {
		heart = l.Heart.state()
	}
	s := compose(lease, heart)
	l.long.See(l.Logger, l.Describe(), s.Record)
	return s, nil
}
