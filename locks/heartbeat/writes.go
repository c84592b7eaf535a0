// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// Writes bounds how many writes of a process's locks are under way at a time, and lets one
// withdrawal of a heartbeat serve all locks that it kept. Make one with [NewWrites]: the zero
// Writes lets no write through. It is safe for concurrent use.
type Writes struct {
	mu          sync.Mutex
	places      int
	free        int             // of them
	waiting     []chan struct{} // for a place, which is theirs once the channel is closed
	withdrawals map[withdrawn]*withdrawing
}

// NewWrites returns a Writes that lets that many writes be under way at a time, which must be at
// least 1.
func NewWrites(places int) *Writes {
	return &Writes{places: places, free: places, withdrawals: map[withdrawn]*withdrawing{}}
}

// enter waits for a place, and tells the caller's Dispatch of it.
func (w *Writes) enter(ctx context.Context) (leave func(), err error) {
	d := locks.DispatchOf(ctx)
	d.Held()
	turn := make(chan struct{})
	w.mu.Lock()
	w.waiting = append(w.waiting, turn)
	w.next()
	w.mu.Unlock()
	select {
	case <-turn:
		d.Sent()
		return w.leave, nil
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

func (w *Writes) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free++
	w.next()
}

// next gives places that are free to those that wait. The caller holds mu.
func (w *Writes) next() {
	for ; w.free > 0 && len(w.waiting) > 0; w.free-- {
		close(w.waiting[0])
		w.waiting = w.waiting[1:]
	}
}

// crowded reports whether more writes wait for a place than can be under way.
func (w *Writes) crowded() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.free == 0 && len(w.waiting) >= w.places
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
	done chan struct{}
	err  error
}

// withdraw withdraws the epoch that keeps a lock, at the version of the heartbeat's Lease
// that the caller has waited for. It fails with locks.ErrConflict if there was another
// heartbeat since (L2). Calls for the same withdrawal share one write.
func (l *Lock) withdraw(ctx context.Context, was *state) error {
	if was.heart == nil { // it was not seen yet
		return fmt.Errorf("%v: its heartbeat has not been seen yet: %w", l.Describe(), locks.ErrConflict)
	}
	w, key := l.Writes, withdrawn{was.name, was.epoch, record.Number(was.heart.ResourceVersion)}
	w.mu.Lock()
	one, underWay := w.withdrawals[key]
	if !underWay {
		one = &withdrawing{done: make(chan struct{})}
		w.withdrawals[key] = one
	}
	w.mu.Unlock()
	if !underWay {
		one.err = l.withdrawNow(ctx, was)
		w.mu.Lock()
		delete(w.withdrawals, key)
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

func (l *Lock) withdrawNow(ctx context.Context, was *state) error {
	last := record.Number(was.heart.ResourceVersion)
	if done(l.View.Get(was.name).Lease, was.attachment, last) {
		return nil
	}
	leave, err := l.Writes.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	heart := rawapi.New[coordinationv1.Lease](l.Client, apierror.Object{Resource: apierror.Leases, Namespace: l.Namespace, Name: was.name})
	_, err = heart.Update(ctx, withdraw(was.heart, was.epoch))
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
