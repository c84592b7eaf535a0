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
	"strconv"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
)

// AnnotationReleasedLocks is on a heartbeat's Lease: an epoch, and the locks that its process
// has released by this note, each with the version of its Lease and the time (L8).
const AnnotationReleasedLocks = "zonelect.dev/released-locks"

// mostNoted is how long the note may be, in bytes. All annotations of an object may have 256
// KiB together.
const mostNoted = 96 << 10

// errNotNoted says that a note cannot release the lock now.
var errNotNoted = errors.New("the heartbeat's Lease cannot note a release now")

// noted is one release in a note.
type noted struct {
	name    string
	version uint64 // of the lock's Lease
	at      time.Time
}

func (n noted) key() string    { return n.name + "@" + strconv.FormatUint(n.version, 10) + "@" }
func (n noted) String() string { return n.key() + strconv.FormatInt(n.at.UnixMicro(), 10) }

// releasedAt reports whether a heartbeat's Lease notes that a lock of that epoch was released
// at that version of its own Lease, and when.
func releasedAt(heart *coordinationv1.Lease, e epoch, name string, version uint64) (time.Time, bool) {
	of, list, _ := strings.Cut(heart.Annotations[AnnotationReleasedLocks], " ")
	if epoch(of) != e {
		return time.Time{}, false
	}
	key := noted{name: name, version: version}.key()
	i := 0
	if !strings.HasPrefix(list, key) {
		if i = strings.Index(list, " "+key) + 1; i == 0 {
			return time.Time{}, false
		}
	}
	at, _, _ := strings.Cut(list[i+len(key):], " ")
	micro, err := strconv.ParseInt(at, 10, 64)
	return time.UnixMicro(micro).UTC(), err == nil
}

// released is the record of a lock that a note has released, at that version of its Lease.
func released(r locks.Record, version uint64, at time.Time) locks.Record {
	r.Holder, r.LeaseDuration = "", time.Second
	r.AcquireTime, r.RenewTime = at, at
	d := &r.Details
	d.Token = cmp.Or(d.Token, version)
	d.Released, d.Handover, d.Request, d.Refused, d.Waits = d.Token, locks.Handover{}, "", "", ""
	return r
}

// releaseWithOthers releases a lock of this process's heartbeat by a note on that, together
// with others that are to be released (L8). It reports false if it has not tried: when there
// are not many others, or when the release says more than a note can.
func (l *Lock) releaseWithOthers(ctx context.Context, was *state, r locks.Record) (s locks.Snapshot, tried bool, err error) {
	at := time.UnixMicro(r.RenewTime.UnixMicro()).UTC()
	if r.AcquireTime.UnixMicro() != at.UnixMicro() || !l.Heart.unlike(at).Equal(at) || !l.Writes.crowded() {
		return locks.Snapshot{}, false, nil
	}
	r.AcquireTime, r.RenewTime = at, at
	if released(record.Read(was.lease), was.number(), at) != r {
		return locks.Snapshot{}, false, nil
	}
	now, err := l.Heart.release(ctx, was.attachment, noted{l.name, was.number(), at})
	switch {
	case errors.Is(err, errNotNoted):
		return locks.Snapshot{}, false, nil
	case err != nil:
		return locks.Snapshot{}, true, fmt.Errorf("%v: releasing it together with others: %w", l.Describe(), err)
	case !now.holds(was):
		return locks.Snapshot{}, true, fmt.Errorf("%v: releasing it together with others: %w", l.Describe(), locks.ErrConflict)
	}
	l.Heart.wrote(l.name, attachment{})
	return compose(was.lease, now.state()), true, nil
}

// leaving is a lock that is to be released by a note.
type leaving struct {
	noted
	dispatch locks.Dispatch
	landed   chan landed // gets one value
}

// release has the Lease of the heartbeat note the release of a lock, and returns once that has
// landed. Those that come while a note is being written share the next one.
func (h *Heart) release(ctx context.Context, a attachment, n noted) (landed, error) {
	one := &leaving{noted: n, dispatch: locks.DispatchOf(ctx), landed: make(chan landed, 1)}
	one.dispatch.Held()
	h.mu.Lock()
	if h.lease == nil || h.lease.UID != a.uid || h.epochIn(h.lease) != a.epoch {
		h.mu.Unlock()
		return landed{}, errNotNoted
	}
	h.leaving = append(h.leaving, one)
	if !h.noting {
		h.noting = true
		h.background.Go(h.noteReleases)
	}
	h.mu.Unlock()
	select {
	case l := <-one.landed:
		return l, l.err
	case <-ctx.Done():
		return landed{}, context.Cause(ctx)
	}
}

// noteReleases notes releases as long as there are any.
func (h *Heart) noteReleases() {
	for {
		h.mu.Lock()
		all := h.leaving
		h.leaving = nil
		h.noting = len(all) > 0
		h.mu.Unlock()
		if len(all) == 0 {
			return
		}
		h.noteTogether(all)
	}
}

// noteTogether notes some releases with one write, and tells those that wait. If it fails, each
// lock is released by a write of its own for a RenewDeadline.
func (h *Heart) noteTogether(all []*leaving) {
	ctx, cancel := context.WithTimeout(context.Background(), h.config.Timing.AttemptTimeout)
	defer cancel()
	for _, one := range all {
		one.dispatch.Sent()
	}
	lease, err := h.writeNote(ctx, all)
	l := landed{err: err}
	switch {
	case errors.Is(err, errNotNoted):
	case err != nil:
		h.noteAgain = time.Now().Add(h.config.Timing.RenewDeadline)
	default:
		h.learn(ctx, record.Snapshot(lease))
		l = h.shown(ctx, lease)
	}
	for _, one := range all {
		one.landed <- l
	}
}

// writeNote writes a note with some releases more, over whatever landed on the Lease before it.
func (h *Heart) writeNote(ctx context.Context, all []*leaving) (*coordinationv1.Lease, error) {
	base := h.state().Lease
	if base == nil || time.Now().Before(h.noteAgain) {
		return nil, errNotNoted
	}
	object := h.object(base)
	for {
		next, err := h.withNote(base, all)
		if err != nil {
			return nil, err
		}
		lease, err := object.Update(ctx, next)
		if !errors.Is(err, locks.ErrConflict) {
			return lease, err
		}
		if base, err = object.Get(ctx); err != nil {
			return nil, err
		}
	}
}

// withNote returns a copy of the heartbeat's Lease that notes some releases more, and no longer
// those whose locks have changed since.
func (h *Heart) withNote(lease *coordinationv1.Lease, all []*leaving) (*coordinationv1.Lease, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.epochIn(lease)
	if e == "" {
		return nil, errNotNoted
	}
	h.forgetReleased(e)
	for _, one := range all {
		h.released[one.name] = one.noted
	}
	text := strings.Builder{}
	text.WriteString(string(e))
	for _, n := range h.released {
		text.WriteString(" " + n.String())
	}
	if text.Len() > mostNoted {
		for _, one := range all {
			delete(h.released, one.name)
		}
		return nil, errNotNoted
	}
	lease = lease.DeepCopy()
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, AnnotationReleasedLocks, text.String())
	return lease, nil
}

// forgetReleased forgets the releases that mean nothing any more: those of another epoch, and
// those whose locks have changed. The caller holds mu.
func (h *Heart) forgetReleased(e epoch) {
	if h.releasedIn != e {
		h.releasedIn, h.released = e, map[string]noted{}
	}
	maps.DeleteFunc(h.released, func(name string, n noted) bool {
		now, known := h.config.View.GetSince(name, n.version)
		return known && now.Number != n.version
	})
}

// stillReleased returns the locks that only a note says to be released.
func (h *Heart) stillReleased() []noted {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgetReleased(h.releasedIn)
	return slices.Collect(maps.Values(h.released))
}

// Settle writes the releases that only the Lease of the heartbeat tells of into the Leases of
// their locks, because that Lease may be deleted with its pod. It gives successors the time to
// take the locks first, as long as they do. It ends with ctx, or after a RenewDeadline. Call it
// after the last election has ended, while the heartbeat goes on.
func (h *Heart) Settle(ctx context.Context) {
	h.background.Wait()
	ctx, cancel := context.WithTimeout(ctx, h.config.Timing.RenewDeadline)
	defer cancel()
	pause := h.config.Timing.RenewInterval / 8
	for left, idle := len(h.stillReleased()), 0; left > 0 && idle < 4; idle++ {
		if sleep.For(ctx, pause) != nil {
			return
		}
		if n := len(h.stillReleased()); n < left {
			left, idle = n, 0
		}
	}
	var writing sync.WaitGroup
	for _, n := range h.stillReleased() {
		if now := h.config.View.Get(n.name); now.Number == n.version {
			writing.Go(func() { h.free(ctx, now.Lease, n) })
		}
	}
	writing.Wait()
}

// free writes the release of a lock into its own Lease. If somebody has taken the lock
// meanwhile, or it cannot be written, the note counts.
func (h *Heart) free(ctx context.Context, lease *coordinationv1.Lease, n noted) {
	leave, err := h.config.Writes.enter(ctx)
	if err != nil {
		return
	}
	defer leave()
	_, err = h.object(lease).Update(ctx, detach(record.Write(lease, released(record.Read(lease), n.version, n.at))))
	if err != nil && !errors.Is(err, locks.ErrConflict) {
		h.logOf(lease).Info("the lock is released, but only the Lease of this process's heartbeat tells of it", "cause", err.Error())
	}
}
