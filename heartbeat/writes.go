// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// writes bounds how many writes of a process's locks are under way at a time, and lets one
// withdrawal of a heartbeat serve all locks that it kept. It is safe for concurrent use.
type writes struct {
	places   int
	patience time.Duration // how long a write keeps its place without an answer

	mu          sync.Mutex
	free        int             // places; negative if one that was lent is taken back
	waiting     []chan struct{} // for a place, which is theirs once the channel is closed
	withdrawals map[withdrawn]*withdrawing
}

// newWrites returns a writes that lets that many be under way at a time, which must be at least 1.
func newWrites(places int, patience time.Duration) *writes {
	return &writes{places: places, patience: patience, free: places, withdrawals: map[withdrawn]*withdrawing{}}
}

// enter waits for a place. A write that has no answer within the patience leaves its place to
// another one: it may never have an answer.
func (w *writes) enter(ctx context.Context) (leave func(), err error) {
	turn := make(chan struct{})
	w.mu.Lock()
	w.waiting = append(w.waiting, turn)
	w.next()
	w.mu.Unlock()
	select {
	case <-turn:
		leave := sync.OnceFunc(func() { w.add(1) })
		late := time.AfterFunc(w.patience, leave)
		return func() {
			late.Stop()
			leave()
		}, nil
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	before := len(w.waiting)
	w.waiting = slices.DeleteFunc(w.waiting, func(c chan struct{}) bool { return c == turn })
	if len(w.waiting) == before { // it had its turn just now
		w.free++
		w.next()
	}
	return nil, context.Cause(ctx)
}

// lend gives the caller's place to another one until back is called, which does not wait.
func (w *writes) lend() (back func()) {
	w.add(1)
	return func() { w.add(-1) }
}

func (w *writes) add(places int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free += places
	w.next()
}

// next gives places that are free to those that wait. The caller holds mu.
func (w *writes) next() {
	for ; w.free > 0 && len(w.waiting) > 0; w.free-- {
		close(w.waiting[0])
		w.waiting = w.waiting[1:]
	}
}

// crowded reports whether more writes wait for a place than can be under way.
func (w *writes) crowded() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.free <= 0 && len(w.waiting) >= w.places
}

// withdrawn identifies a withdrawal: the epoch, and the version of its Lease that the wait
// was for.
type withdrawn struct {
	name  string
	epoch epoch
	last  uint64
}

// withdrawing is a withdrawal that is under way.
type withdrawing struct {
	began time.Time
	done  chan struct{}
	err   error
}

// withdraw withdraws the epoch that keeps a lock, at the version of the heartbeat's Lease
// that the caller has waited for. It fails with locks.ErrConflict if there was another
// heartbeat since (L2). Calls for the same withdrawal share one write, in the place of the first. One
// that comes after the patience sends another: the first may never have an answer, and no more than
// one of them lands.
func (l *lock) withdraw(ctx context.Context, was *state) error {
	if was.heart == nil { // it was not seen yet
		return fmt.Errorf("%v: its heartbeat has not been seen yet: %w", l.Describe(), locks.ErrConflict)
	}
	w, key := l.writes, withdrawn{was.name, was.epoch, record.Number(was.heart.ResourceVersion)}
	w.mu.Lock()
	one := w.withdrawals[key]
	shares := one != nil && time.Since(one.began) < w.patience
	if !shares {
		one = &withdrawing{began: time.Now(), done: make(chan struct{})}
		w.withdrawals[key] = one
	}
	w.mu.Unlock()
	if !shares {
		one.err = l.withdrawNow(ctx, was)
		w.mu.Lock()
		if w.withdrawals[key] == one {
			delete(w.withdrawals, key)
		}
		w.mu.Unlock()
		close(one.done)
	}
	select {
	case <-one.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if one.err != nil {
		return fmt.Errorf("%v: withdrawing the heartbeat %s that keeps it: %w", l.Describe(), key.name, one.err)
	}
	return nil
}

func (l *lock) withdrawNow(ctx context.Context, was *state) error {
	last := record.Number(was.heart.ResourceVersion)
	if done(l.view.Get(was.name).Lease, was.attachment, last) {
		return nil
	}
	heart := rawapi.New[coordinationv1.Lease](l.client, apierror.Object{Resource: apierror.Leases, Namespace: l.namespace, Name: was.name})
	_, err := heart.Update(ctx, withdraw(was.heart, was.epoch))
	if !errors.Is(err, locks.ErrConflict) {
		return err
	}
	now, readErr := heart.Get(ctx)
	if readErr == nil && done(now, was.attachment, last) {
		return nil // by another candidate
	}
	return err
}

// done reports whether an epoch is withdrawn, and had its last heartbeat at that version.
func done(heart *coordinationv1.Lease, a attachment, last uint64) bool {
	if heart == nil || heart.UID != a.uid {
		return false
	}
	note, noted := withdrawalOf(heart)
	return noted && note.epoch == a.epoch && note.last == last
}
