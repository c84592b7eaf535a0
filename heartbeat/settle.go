// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
)

// forgetReleased forgets the releases of locks that somebody has taken since. A lock that was
// only edited is still to be released, but no note says so. So is one that the view has not
// kept. The caller holds mu.
func (h *heart) forgetReleased() {
	maps.DeleteFunc(h.left, func(name string, l *left) bool {
		now, known := h.config.view.GetSince(name, l.version)
		if !known || now.Cut {
			return false
		}
		l.version = now.Number
		return now.Lease == nil || !l.isTerm(now.Lease)
	})
}

// isTerm reports whether a lock's Lease is still of the term that was released.
func (l *left) isTerm(lease *coordinationv1.Lease) bool {
	a, attached := attachmentOf(lease)
	was, now := record.Read(l.term), record.Read(lease)
	return attached && a == l.attachment && lease.UID == l.term.UID && now.Holder == was.Holder &&
		now.Transitions == was.Transitions && now.AcquireTime.Equal(was.AcquireTime)
}

// stillReleased returns the locks that only a note says to be released.
func (h *heart) stillReleased() (all []*left) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgetReleased()
	for _, l := range h.left {
		if l.landed {
			all = append(all, l)
		}
	}
	return all
}

// tidy has released locks written that nobody has taken for long, or whose note counts for
// nothing any more: the heartbeat's Lease was deleted or is of another epoch, or a hand has
// removed the note. Each of these writes is one that may wait. If no note is left, the
// heartbeat's Lease need not carry any. The caller holds mu.
func (h *heart) tidy(heart *coordinationv1.Lease) {
	h.forgetReleased()
	var due []*left
	for _, l := range h.left {
		counts := l.in(heart)
		if l.landed = l.landed || counts; l.landed && (!counts || time.Since(l.since) > h.idle()) {
			due = append(due, l)
		}
	}
	switch _, has := heart.Annotations[record.AnnotationReleasedLocks]; {
	case h.settling:
	case len(due) > 0 && !h.freeing:
		h.freeing = true
		h.background.Go(func() { h.freeSome(due) })
	case has && len(h.left) == 0:
		h.beginNotes()
	}
}

// freeSome writes the releases of some locks, one by one, for a RenewInterval.
func (h *heart) freeSome(all []*left) {
	ctx, cancel := context.WithTimeout(context.Background(), h.config.timing.RenewInterval)
	defer cancel()
	for _, l := range all {
		if h.free(ctx, l) != nil {
			break
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.freeing = false
}

// settle writes the releases that only the Lease of the heartbeat tells of into the Leases of
// their locks, because that Lease may be deleted with its pod. It gives successors the time to
// take the locks first, as long as they do. It ends with ctx, when a write fails, or after a
// RenewDeadline. Call it after the last election has ended, while the heartbeat goes on.
func (h *heart) settle(ctx context.Context) {
	settling := func(is bool) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.settling = is
	}
	settling(true)
	defer settling(false)
	h.background.Wait()
	ctx, cancel := context.WithTimeout(ctx, h.config.timing.RenewDeadline)
	defer cancel()
	pause := h.config.timing.RenewInterval / 8
	for still, idle := len(h.stillReleased()), 0; still > 0 && idle < 4; idle++ {
		if sleep.For(ctx, pause) != nil {
			return
		}
		if n := len(h.stillReleased()); n < still {
			still, idle = n, 0
		}
	}
	var writing sync.WaitGroup
	for _, l := range h.stillReleased() {
		writing.Go(func() {
			if h.free(ctx, l) != nil {
				cancel()
			}
		})
	}
	writing.Wait()
}

// free writes the release of a lock into its own Lease, unless somebody has taken the lock
// meanwhile. If it cannot be written, the note counts.
func (h *heart) free(ctx context.Context, l *left) error {
	leave, err := h.config.writes.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	lease := h.config.view.Get(l.noted.name).Lease
	if lease == nil || !l.isTerm(lease) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, h.config.timing.AttemptTimeout)
	defer cancel()
	_, err = h.object(lease).Update(ctx, detach(record.Write(lease, released(record.Read(lease), record.Number(l.term.ResourceVersion), l.at))))
	if err == nil || errors.Is(err, locks.ErrConflict) {
		return nil
	}
	h.logOf(lease).Info("the lock is released, but only the Lease of this process's heartbeat tells of it", "cause", err.Error())
	return err
}

// remove deletes the heartbeat's Lease. Call it when the elector of the heartbeat has ended. It
// deletes nothing unless that elector has released the Lease, and no lock names it any longer: a
// heartbeat that is gone was not withdrawn (L4), so whoever waits for such a lock would wait
// longer. It needs the permission to delete Leases.
func (h *heart) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*h.config.timing.AttemptTimeout)
	defer cancel()
	heart := h.state().Lease
	if heart == nil || record.Read(heart).Holder != "" || !h.config.view.Reach(ctx, record.Number(heart.ResourceVersion)) {
		return nil
	}
	for _, lease := range h.config.view.Leases() {
		if a, attached := attachmentOf(lease); attached && a.name == heart.Name {
			return nil
		}
	}
	err := h.object(heart).Delete(ctx, heart.UID, heart.ResourceVersion)
	if err == nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.lease, h.uid, h.madeAnew = nil, "", 0
	}
	return err
}
