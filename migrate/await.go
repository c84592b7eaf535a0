// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks/ownerref"
)

const lookInterval = 500 * time.Millisecond

// Await waits until the candidates have followed the phase on record: the ConfigMap is an
// armed shield (dual), sealed, gone (clean), or returned while nobody holds the Lease
// (legacy). If tell is not nil, Await calls it with what prevents them whenever that changes.
//
// It returns its last report. If ctx ends before they have followed, it also returns an error
// that says what prevents them, and that wraps the cause of the end. The phase stays as it is:
// they may still follow it.
func (m *Migration) Await(ctx context.Context, tell func(why []string)) (Report, error) {
	var last Report
	var why []string
	o := &observer{Migration: m}
	for {
		r, err := o.look(ctx)
		if err == nil {
			last = r
			now := r.unfollowed()
			if now == nil {
				return r, nil
			}
			if tell != nil && !slices.Equal(now, why) {
				tell(now)
			}
			why = now
		} else if ctx.Err() == nil {
			why = []string{err.Error()} // the error may pass
		}
		if err := sleep.For(ctx, lookInterval); err != nil {
			return last, fmt.Errorf("the candidates have not followed to phase %q: %s: %w", last.Phase, strings.Join(why, "; "), err)
		}
	}
}

// unfollowed says why the candidates have not followed the phase; nil if they have.
func (r *Report) unfollowed() []string {
	cm, h, vacant := r.Legacy.ConfigMap, r.holder(), r.vacant()
	ours := cm.Kind == ownerref.Shield || cm.Kind == ownerref.Sealed
	stands := cm.Armed && !cm.Condemned
	done, want := false, "what a phase says: none is on record"
	switch r.Phase {
	case Legacy:
		done, want = !ours && vacant, "left to legacy pods"
	case Dual:
		done = cm.Kind == ownerref.Shield && stands && h != nil &&
			slices.ContainsFunc(cm.Presences, func(o ownerref.Owner) bool { return o.Name == h.Presence })
		want = "an armed shield with the leader among its owners"
	case Sealed:
		done, want = cm.Kind == ownerref.Sealed && stands, "sealed"
	case Clean:
		done, want = cm.Kind != "" && !ours && cm.Kind != ownerref.Legacy, "gone"
	}
	why := fmt.Sprintf("the ConfigMap is %s, not yet %s", cm.Kind, want)
	if r.Legacy.Lock.Elected {
		done, why = r.recordFollowed()
	}
	switch lingering := cm.Lingering(); {
	case done && r.onLease == r.Stage:
		return nil
	case done:
		why = fmt.Sprintf("the Lease does not say phase %s yet", r.Phase)
	case lingering != "":
		why += ": " + lingering
	}
	all := append([]string{why}, r.Problems...)
	switch {
	case vacant && r.Phase != Legacy && !r.electorLeads():
		return append(all, "nobody holds the Lease, whose holder does the work")
	case h == nil && !vacant:
		return append(all, r.said.Holder+" holds the Lease and does not take part in the migration")
	case h != nil && h.Waiting != "":
		return append(all, h.Name()+" waits: "+h.Waiting)
	}
	return all
}

// recordFollowed says whether the candidates have followed the phase and, if not, why.
func (r *Report) recordFollowed() (done bool, why string) {
	why = r.recordText()
	switch r.Phase {
	case Legacy:
		return r.vacant(), r.said.Holder + " still holds the Lease"
	case Dual:
		return !r.vacant() && r.holder() != nil && r.Legacy.Holder == r.said.Holder, why + ", not yet by the leader"
	case Clean:
		return !r.vacant() && r.Legacy.Kind != "" && !r.Legacy.Ours, why + ", not yet taken off"
	}
	return false, "the phase can only be rolled back to dual"
}
