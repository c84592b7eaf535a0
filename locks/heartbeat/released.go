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

	"github.com/zonelect/zonelect/internal/leasewatch"
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

func (n noted) String() string {
	return n.name + "@" + strconv.FormatUint(n.version, 10) + "@" + strconv.FormatInt(n.at.UnixMicro(), 10)
}

// releasedAt reports whether a heartbeat's Lease notes that a lock of that epoch was released
// at that version of its own Lease, and when. The note may be long, and is asked for each of
// the locks at each heartbeat: it is sorted by name.
func releasedAt(heart *coordinationv1.Lease, e epoch, name string, version uint64) (time.Time, bool) {
	of, list, _ := strings.Cut(heart.Annotations[AnnotationReleasedLocks], " ")
	if epoch(of) != e {
		return time.Time{}, false
	}
	for list != "" {
		middle := len(list) / 2
		begin, end := strings.LastIndexByte(list[:middle], ' ')+1, len(list)
		if i := strings.IndexByte(list[middle:], ' '); i >= 0 {
			end = middle + i
		}
		is, rest, _ := strings.Cut(list[begin:end], "@")
		switch order := strings.Compare(name, is); {
		case order < 0:
			list = list[:max(0, begin-1)]
		case order > 0:
			list = list[min(len(list), end+1):]
		default:
			of, at, _ := strings.Cut(rest, "@")
			micro, err := strconv.ParseInt(at, 10, 64)
			return time.UnixMicro(micro).UTC(), err == nil && of == strconv.FormatUint(version, 10)
		}
	}
	return time.Time{}, false
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
	now, err := l.Heart.release(ctx, was, noted{l.name, was.number(), at})
	if errors.Is(err, errNotNoted) {
		return locks.Snapshot{}, false, nil
	}
	s = locks.Snapshot{}
	if err == nil {
		s, err = now.released(was)
	}
	if err != nil {
		return locks.Snapshot{}, true, fmt.Errorf("%v: releasing it together with others: %w", l.Describe(), err)
	}
	l.Heart.wrote(l.name, attachment{})
	return s, true, nil
}

// errWrittenSince says that a lock was written after a note on it had landed, most likely by a
// successor.
var errWrittenSince = errors.New("the note has landed, but the lock was written since, and perhaps before")

// released returns a lock that a note has released. The note is void if the lock was written
// before it landed.
func (l landed) released(was *state) (locks.Snapshot, error) {
	s, at := compose(was.lease, l.state()), l.state().Number
	now, _ := l.leases.GetSince(was.lease.Name, at)
	switch {
	case s.Record.Holder != "":
		return s, locks.ErrConflict
	case l.holds(was), l.firstWrite(was) > at:
		return s, nil
	case now.Number > at:
		return s, errWrittenSince
	}
	return s, locks.ErrConflict
}

// firstWrite is the version of the first write of a lock since was; zero if it is not known.
func (l landed) firstWrite(was *state) uint64 {
	if view, is := l.leases.(*leasewatch.View); is {
		return view.NextAfter(was.lease.Name, was.number())
	}
	return 0
}

// leaving is a lock that is to be released by a note.
type leaving struct {
	noted
	attachment
	term     *coordinationv1.Lease // the lock's, of the term that ends
	dispatch locks.Dispatch
	landed   chan landed // gets one value
}

// left is a lock that was released by a note, or was to be, and that nobody has taken yet.
type left struct {
	leaving
	since  time.Time
	landed bool
}

// in reports whether the note on a heartbeat's Lease releases the lock.
func (l *left) in(heart *coordinationv1.Lease) bool {
	_, is := releasedAt(heart, l.epoch, l.noted.name, l.version)
	return is && l.uid == heart.UID
}

// release has the Lease of the heartbeat note the release of a lock, and returns once that has
// landed. Those that come while a note is being written share the next one.
func (h *Heart) release(ctx context.Context, was *state, n noted) (landed, error) {
	a := was.attachment
	one := &leaving{noted: n, attachment: a, term: was.lease, dispatch: locks.DispatchOf(ctx), landed: make(chan landed, 1)}
	one.dispatch.Held()
	h.mu.Lock()
	if h.lease == nil || h.lease.UID != a.uid || h.epochIn(h.lease) != a.epoch || h.took > h.config.Timing.RenewInterval {
		h.mu.Unlock()
		return landed{}, errNotNoted
	}
	h.leaving = append(h.leaving, one)
	h.beginNotes()
	h.mu.Unlock()
	select {
	case l := <-one.landed:
		return l, l.err
	case <-ctx.Done():
		return landed{}, context.Cause(ctx)
	}
}

// beginNotes has a note written, unless one is. The caller holds mu.
func (h *Heart) beginNotes() {
	if !h.noting {
		h.noting = true
		h.background.Go(h.noteReleases)
	}
}

// noteReleases writes a note, and goes on as long as there are releases to note.
func (h *Heart) noteReleases() {
	for goesOn := true; goesOn; {
		h.mu.Lock()
		all := h.leaving
		h.leaving = nil
		h.mu.Unlock()
		h.noteTogether(all)
		h.mu.Lock()
		goesOn = len(h.leaving) > 0
		h.noting = goesOn
		h.mu.Unlock()
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
	lease, fit, err := h.writeNote(ctx, all)
	l := landed{err: err}
	switch {
	case errors.Is(err, errNotNoted):
	case err != nil:
		h.noteAgain = time.Now().Add(h.config.Timing.RenewDeadline)
	default:
		h.learn(ctx, record.Snapshot(lease))
		h.landedNote(lease)
		l = h.shown(ctx, lease)
	}
	for _, one := range all {
		if err == nil && !slices.Contains(fit, one) {
			one.landed <- landed{err: errNotNoted}
			continue
		}
		one.landed <- l
	}
}

// landedNote notes which releases a heartbeat's Lease tells of.
func (h *Heart) landedNote(heart *coordinationv1.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.left {
		l.landed = l.landed || l.in(heart)
	}
}

// writeNote writes a note with some releases more, over whatever landed on the Lease before it.
// It returns those that are in the note.
func (h *Heart) writeNote(ctx context.Context, all []*leaving) (*coordinationv1.Lease, []*leaving, error) {
	if !h.beatsLand(ctx) || time.Now().Before(h.noteAgain) {
		return nil, nil, errNotNoted
	}
	base := h.state().Lease
	if base == nil {
		return nil, nil, errNotNoted
	}
	object := h.object(base)
	for {
		next, fit, err := h.withNote(base, all)
		if err != nil {
			return nil, nil, err
		}
		lease, err := object.Update(ctx, next)
		if !errors.Is(err, locks.ErrConflict) {
			return lease, fit, err
		}
		before := base
		if base, err = object.Get(ctx); err != nil {
			return nil, nil, err
		}
		if record.Number(base.ResourceVersion) < record.Number(before.ResourceVersion) {
			h.wentBack()
			return nil, nil, errNotNoted
		}
	}
}

// beatsLand waits until no heartbeat has met a conflict since the last one landed. So notes cost
// no heartbeat more than one try, however many come after each other.
func (h *Heart) beatsLand(ctx context.Context) bool {
	for {
		h.mu.Lock()
		refused, changed := h.refused, h.changed
		h.mu.Unlock()
		if !refused {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// withNote returns a copy of the heartbeat's Lease that notes some releases more, and no longer
// those whose locks have changed since. It returns those that it could note: they are of the
// Lease's epoch, and there was room for them.
func (h *Heart) withNote(lease *coordinationv1.Lease, all []*leaving) (*coordinationv1.Lease, []*leaving, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.epochIn(lease)
	if e == "" {
		return nil, nil, errNotNoted
	}
	h.forgetReleased()
	note, size := map[string]string{}, len(e)
	add := func(one *leaving) bool {
		text := one.noted.String()
		after := size + 1 + len(text)
		if before, is := note[one.noted.name]; is {
			after -= 1 + len(before)
		}
		if one.uid != lease.UID || one.epoch != e || after > mostNoted {
			return false
		}
		note[one.noted.name], size = text, after
		return true
	}
	for _, one := range h.left {
		add(&one.leaving)
	}
	var fit []*leaving
	for _, one := range all {
		if add(one) {
			fit = append(fit, one)
			h.left[one.noted.name] = &left{leaving: *one, since: time.Now()}
		}
	}
	if len(all) > 0 && len(fit) == 0 {
		return nil, nil, errNotNoted
	}
	lease = lease.DeepCopy()
	delete(lease.Annotations, AnnotationReleasedLocks)
	if len(note) > 0 {
		text := strings.Builder{}
		text.WriteString(string(e))
		for _, name := range slices.Sorted(maps.Keys(note)) {
			text.WriteString(" " + note[name])
		}
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, AnnotationReleasedLocks, text.String())
	}
	return lease, fit, nil
}

// forgetReleased forgets the releases of locks that somebody has taken since. A lock that was
// only edited is still to be released, but no note says so. The caller holds mu.
func (h *Heart) forgetReleased() {
	maps.DeleteFunc(h.left, func(name string, l *left) bool {
		now, known := h.config.View.GetSince(name, l.version)
		if !known {
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
func (h *Heart) stillReleased() (all []*left) {
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
func (h *Heart) tidy(heart *coordinationv1.Lease) {
	h.forgetReleased()
	var due []*left
	for _, l := range h.left {
		counts := l.in(heart)
		if l.landed = l.landed || counts; l.landed && (!counts || time.Since(l.since) > h.idle()) {
			due = append(due, l)
		}
	}
	switch _, has := heart.Annotations[AnnotationReleasedLocks]; {
	case h.settling:
	case len(due) > 0 && !h.freeing:
		h.freeing = true
		h.background.Go(func() { h.freeSome(due) })
	case has && len(h.left) == 0:
		h.beginNotes()
	}
}

// freeSome writes the releases of some locks, one by one, for a RenewInterval.
func (h *Heart) freeSome(all []*left) {
	ctx, cancel := context.WithTimeout(context.Background(), h.config.Timing.RenewInterval)
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

// Settle writes the releases that only the Lease of the heartbeat tells of into the Leases of
// their locks, because that Lease may be deleted with its pod. It gives successors the time to
// take the locks first, as long as they do. It ends with ctx, when a write fails, or after a
// RenewDeadline. Call it after the last election has ended, while the heartbeat goes on.
func (h *Heart) Settle(ctx context.Context) {
	settling := func(is bool) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.settling = is
	}
	settling(true)
	defer settling(false)
	h.background.Wait()
	ctx, cancel := context.WithTimeout(ctx, h.config.Timing.RenewDeadline)
	defer cancel()
	pause := h.config.Timing.RenewInterval / 8
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
func (h *Heart) free(ctx context.Context, l *left) error {
	leave, err := h.config.Writes.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	lease := h.config.View.Get(l.noted.name).Lease
	if lease == nil || !l.isTerm(lease) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, h.config.Timing.AttemptTimeout)
	defer cancel()
	_, err = h.object(lease).Update(ctx, detach(record.Write(lease, released(record.Read(lease), record.Number(l.term.ResourceVersion), l.at))))
	if err == nil || errors.Is(err, locks.ErrConflict) {
		return nil
	}
	h.logOf(lease).Info("the lock is released, but only the Lease of this process's heartbeat tells of it", "cause", err.Error())
	return err
}
