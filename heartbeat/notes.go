// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// leaving is a lock that is to be released by a note.
type leaving struct {
	noted
	attachment
	term   *coordinationv1.Lease // the lock's, of the term that ends
	landed chan landed           // gets one value
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
func (h *heart) release(ctx context.Context, was *state, n noted) (landed, error) {
	a := was.attachment
	one := &leaving{noted: n, attachment: a, term: was.lease, landed: make(chan landed, 1)}
	h.mu.Lock()
	if h.lease == nil || h.lease.UID != a.uid || h.epochIn(h.lease) != a.epoch || h.took > h.config.timing.RenewInterval {
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
func (h *heart) beginNotes() {
	if !h.noting {
		h.noting = true
		h.background.Go(h.noteReleases)
	}
}

// noteReleases writes a note, and goes on as long as there are releases to note.
func (h *heart) noteReleases() {
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
func (h *heart) noteTogether(all []*leaving) {
	ctx, cancel := context.WithTimeout(context.Background(), h.config.timing.AttemptTimeout)
	defer cancel()
	lease, fit, err := h.writeNote(ctx, all)
	l := landed{err: err}
	switch {
	case errors.Is(err, errNotNoted):
	case err != nil:
		h.noteAgain = time.Now().Add(h.config.timing.RenewDeadline)
	default:
		h.learn(record.Snapshot(lease))
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

// landedNote notes which releases a heartbeat's Lease tells of. A heartbeat that is under way meets
// a conflict with the note. That answer may come when the next note has been sent.
func (h *heart) landedNote(heart *coordinationv1.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused = h.refused || len(h.beats) > 0
	for _, l := range h.left {
		l.landed = l.landed || l.in(heart)
	}
}

// writeNote writes a note with some releases more, over whatever landed on the Lease before it.
// It returns those that are in the note.
func (h *heart) writeNote(ctx context.Context, all []*leaving) (*coordinationv1.Lease, []*leaving, error) {
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
func (h *heart) beatsLand(ctx context.Context) bool {
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
func (h *heart) withNote(lease *coordinationv1.Lease, all []*leaving) (*coordinationv1.Lease, []*leaving, error) {
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
	delete(lease.Annotations, record.AnnotationReleasedLocks)
	if len(note) > 0 {
		text := strings.Builder{}
		text.WriteString(string(e))
		for _, name := range slices.Sorted(maps.Keys(note)) {
			text.WriteString(" " + note[name])
		}
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, record.AnnotationReleasedLocks, text.String())
	}
	return lease, fit, nil
}
