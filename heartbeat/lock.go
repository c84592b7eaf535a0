// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/extension"
	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// config is what the locks of a process share.
type config struct {
	client    rest.Interface // of the API group coordination.k8s.io/v1
	namespace string
	view      *leasewatch.View // of the Leases of the namespace
	heart     *heart           // keeps the locks that this process holds
	writes    *writes          // of the locks
	// allow is called before the first write of each lock, and says why there may be none. Nil
	// allows all.
	allow func(ctx context.Context, name string) error
	// group is the name under which the candidates of all locks announce themselves. Each
	// Lease notes it, for tools. Empty means that each lock's candidates use its own name.
	group  string
	labels map[string]string // set on each Lease that is written; its other labels are kept
	logger logr.Logger
}

// lock is a [locks.Lock] on a Lease, see the package comment. Its methods are safe for
// concurrent use.
type lock struct {
	config
	name   string
	object rawapi.Object[coordinationv1.Lease, *coordinationv1.Lease]
	long   record.LongWarning

	gate  extension.Gate
	epoch epoch // that the last write named; the heart's mutex guards it
}

var (
	_ locks.Lock     = (*lock)(nil)
	_ locks.Renewer  = (*lock)(nil)
	_ locks.Guardian = (*lock)(nil)
)

// lock returns the lock on the Lease of that name. It does no I/O.
func (c config) lock(name string) (*lock, error) {
	object := apierror.Object{Resource: apierror.Leases, Namespace: c.namespace, Name: name}
	if err := rawapi.Check(c.client, object); err != nil {
		return nil, fmt.Errorf("lease lock %q in namespace %q: %w", name, c.namespace, err)
	}
	return &lock{
		config: c, name: name, object: rawapi.New[coordinationv1.Lease](c.client, object),
		gate: extension.Gate{Lock: name, Allow: c.allow},
	}, nil
}

// Describe returns the Lease's name. It does no I/O.
func (l *lock) Describe() locks.Description {
	return locks.Description{Kind: "Lease", Namespace: l.namespace, Name: l.name}
}

// Capabilities returns that the heartbeat renews the lock, and that its end ends a term. It does no
// I/O.
func (l *lock) Capabilities() locks.Capabilities {
	return locks.Capabilities{Guardian: l, Renewer: l, Group: l.group}
}

// Read returns the record by a linearizable list of all Leases, which concurrent reads share. If
// that does not show the heartbeat's Lease, because nobody has asked for it before, it makes
// another one.
func (l *lock) Read(ctx context.Context) (locks.Snapshot, error) {
	for names := []string{l.name}; ; {
		r, err := l.view.Read(ctx, names...)
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
func (l *lock) composed(lock leasewatch.State, get func(name string) leasewatch.State) (s locks.Snapshot, cut string) {
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
	s = l.compose(lock.Lease, heart).Snapshot
	l.long.See(l.logger, l.Describe(), s.Record)
	return s, ""
}

// Write writes the record. If it has a holder, the heartbeat of this process keeps the Lease from
// then on, as long as it beats. If another process's heartbeat keeps the lock, it withdraws that
// first (L2). The caller has a place among the writes.
func (l *lock) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	if err := record.Check(r); err != nil {
		return locks.Snapshot{}, l.object.Name().Explain(apierror.Update, err)
	}
	was := stateOf(base)
	if base.Exists() && was == nil {
		return locks.Snapshot{}, l.object.Name().Explain(apierror.Update, fmt.Errorf("the version to replace (%T) was not read from this Lease", base.Opaque))
	}
	defer l.heart.writing(l.name)()
	if err := l.gate.MayWrite(ctx, r); err != nil {
		return locks.Snapshot{}, err
	}
	if was != nil && l.taken(was) {
		return locks.Snapshot{}, fmt.Errorf("%v: %w", l.Describe(), locks.ErrConflict)
	}
	if r.Holder == "" && was != nil && l.heart.owns(was.attachment) {
		if s, tried, err := l.releaseWithOthers(ctx, was, r); tried {
			return s, err
		}
	}
	if was != nil && was.mayBeat && !l.heart.owns(was.attachment) {
		if err := l.withdraw(ctx, was); err != nil {
			return locks.Snapshot{}, err
		}
	}
	return l.write(ctx, was, r)
}

// compose is [compose], of which the gate hears.
func (l *lock) compose(lease *coordinationv1.Lease, heart leasewatch.State) composed {
	c := compose(lease, heart)
	l.gate.Observe(c.Snapshot)
	return c
}

// taken reports whether the Lease is known to have changed since a write was asked for.
func (l *lock) taken(was *state) bool {
	now, known := l.view.GetSince(l.name, was.number())
	return known && now.Number > was.number()
}

// write replaces the lock's Lease, or creates it.
func (l *lock) write(ctx context.Context, was *state, r locks.Record) (locks.Snapshot, error) {
	to := l.heart.keeps(l, r)
	lease := l.wanted(was, r, to)
	send := l.object.Update
	if was == nil {
		send = l.object.Create
	}
	lease.Spec.RenewTime.Time = l.heart.unlike(lease.Spec.RenewTime.Time, to != (attachment{}) && r.Details.Token != 0)
	lease, err := send(ctx, lease)
	if err != nil {
		return locks.Snapshot{}, err
	}
	lease.ManagedFields = nil
	l.heart.wrote(l.name, to)
	heart := l.heart.state()
	if heart.Lease == nil || heart.Number > record.Number(lease.ResourceVersion) { // it is of a later moment
		heart = leasewatch.State{Number: unseen}
	}
	s := compose(lease, heart).Snapshot
	l.long.See(l.logger, l.Describe(), s.Record)
	return s, nil
}

// wanted returns the Lease to write, which the heartbeat to keeps.
func (l *lock) wanted(was *state, r locks.Record, to attachment) *coordinationv1.Lease {
	var old *coordinationv1.Lease
	if was != nil {
		old = was.lease
	}
	lease := record.Write(old, r)
	lease.Annotations = record.Shared(l.group, l.name)(lease.Annotations)
	record.SetLabels(lease, l.labels)
	if to != (attachment{}) {
		return attach(lease, to)
	}
	return detach(lease)
}

// groupNoted is the name of the group that the Lease notes.
func (l *lock) groupNoted() string {
	if l.group == l.name {
		return ""
	}
	return l.group
}

// lacks reports whether the Lease that a heartbeat keeps is not as this lock writes it.
func (l *lock) lacks(lease *coordinationv1.Lease) bool {
	for key, value := range l.labels {
		if is, has := lease.Labels[key]; !has || is != value {
			return true
		}
	}
	d := lease.Spec.LeaseDurationSeconds
	return lease.Annotations[record.AnnotationShared] != l.groupNoted() || d == nil || *d != int32(never/time.Second)
}

// Renew waits for the next heartbeat that lands while the Lease is at the version that this process
// holds, see [locks.Renewer] (L1).
func (l *lock) Renew(ctx context.Context, held locks.Version) (sent time.Time, s locks.Snapshot, err error) {
	was := stateOf(held)
	if was == nil || !l.heart.owns(was.attachment) || l.lacks(was.lease) {
		return time.Time{}, locks.Snapshot{}, locks.ErrNotKept
	}
	beat, err := l.heart.renew(ctx, l.name, was.attachment)
	for err == nil && beat.repeats(was) {
		beat, err = l.heart.renew(ctx, l.name, was.attachment)
	}
	if err == nil && !beat.holds(was) {
		err = locks.ErrConflict
	}
	if err != nil {
		return time.Time{}, locks.Snapshot{}, fmt.Errorf("%v: renewing by heartbeat: %w", l.Describe(), err)
	}
	c := compose(was.lease, beat.state())
	if c.void != "" {
		return time.Time{}, locks.Snapshot{}, fmt.Errorf("%v: %s: %w", l.Describe(), c.void, locks.ErrConflict)
	}
	return beat.sent, c.Snapshot, nil
}

// Attend permits a candidate to campaign once the process has a heartbeat, or a RenewInterval
// later: a lock that is acquired before is written once more.
func (l *lock) Attend(ctx context.Context, permit func(locks.Permission)) error {
	l.heart.await(ctx)
	permit(locks.Permission{Granted: true})
	<-ctx.Done()
	return context.Cause(ctx)
}

// Adopt lets the work begin at once, and ends the term at once when the epoch that keeps the lock is
// over (L5).
func (l *lock) Adopt(ctx context.Context, _ locks.Term, permit func(locks.Permission)) error {
	permit(locks.Permission{Granted: true})
	for {
		ended, why := l.heart.over(l)
		if why != "" {
			return fmt.Errorf("%w: %s", locks.ErrTermLost, why)
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
