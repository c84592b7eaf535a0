// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// Watch sends the changes of the Lease after version from, see [locks.Lock]. It is one
// request, which ends by itself after five to ten minutes, even if the server has fallen
// silent. It starts no goroutine.
func (l *Lock) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	return l.object.Watch(ctx, from.Number, func(ctx context.Context, e rawapi.Event[*coordinationv1.Lease]) error {
		select {
		case events <- l.event(e):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// event translates one event.
func (l *Lock) event(e rawapi.Event[*coordinationv1.Lease]) locks.Event {
	switch e.Type {
	case watch.Deleted:
		return locks.Event{Snapshot: record.Gone(e.Object.ResourceVersion), Gapless: true}
	case watch.Bookmark:
		return locks.Event{Snapshot: record.Gone(e.Object.ResourceVersion), Bookmark: true, Gapless: true}
	default:
		return locks.Event{Snapshot: l.snapshot(e.Object), Gapless: true}
	}
}
