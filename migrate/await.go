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
	cm, h := r.ConfigMap, r.holder()
	ours := cm.Kind == ownerref.Shield || cm.Kind == ownerref.Sealed
	stays, lingering := !cm.shield.Condemned, cm.shield.Lingering()
	vacant := r.Lease.Holder == "" || r.Lease.Expired
	var done bool
	why := ""
	switch {
	case r.legacy.Elected:
		done, why = r.recordFollowed(vacant)
	case r.Phase == Legacy:
		done, why = !ours && vacant, "the ConfigMap is still "+string(cm.Kind)
		if !vacant {
			why = r.Lease.Holder + " still holds the Lease"
		}
	case r.Phase == Dual:
		done, why = cm.Kind == ownerref.Shield && cm.Armed && stays && h != nil && r.shields(*h), r.undone("an armed shield with the leader among its owners")
	case r.Phase == Sealed:
		done, why = cm.Kind == ownerref.Sealed && cm.Armed && stays, r.undone("sealed")
	case r.Phase == Clean:
		done, why = cm.Kind != "" && !ours && cm.Kind != ownerref.Legacy, r.undone("gone")
	default:
		why = "no phase is on record"
	}
	same := stageOf(r.Lease.Phase, r.Lease.Step) == r.stage()
	switch {
	case done && same:
		return nil
	case done:
		why = fmt.Sprintf("the Lease does not say phase %s yet", r.Phase)
	case lingering != "":
		why += ": " + lingering
	}
	return slices.Concat([]string{why}, r.Problems, r.waiting(vacant))
}

func (r *Report) undone(want string) string {
	return fmt.Sprintf("the ConfigMap is %s, not yet %s", r.ConfigMap.Kind, want)
}

// waiting says what the holder of the Lease waits for.
func (r *Report) waiting(vacant bool) []string {
	switch h := r.holder(); {
	case vacant && r.Phase != Legacy && !r.electorLeads():
		return []string{"nobody holds the Lease, whose holder does the work"}
	case h == nil && !vacant:
		return []string{r.Lease.Holder + " holds the Lease and does not take part in the migration"}
	case h != nil && h.Waiting != "":
		return []string{h.Name() + " waits: " + h.Waiting}
	case r.Phase == Sealed && len(r.ConfigMap.Presumed) > 0:
		return []string{"legacy pods that are presumed gone: " + strings.Join(r.ConfigMap.Presumed, ", ")}
	}
	return nil
}
