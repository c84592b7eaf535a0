// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/record"
)

// How long the server is asked to keep a watch, at random so that the watches
// of many candidates do not end together; and how much later than that this
// side ends it, should the server be gone.
const (
	watchLeast = 5 * time.Minute
	watchMost  = 10 * time.Minute
	watchSlack = 10 * time.Second
)

// Watch sends what happens to the Lease after from, as election.Lock says. It
// is one request, which ends by itself after five to ten minutes, also if the
// server has fallen silent. It runs in the caller's goroutine and starts none.
func (l *Lock) Watch(ctx context.Context, from election.Version, events chan<- election.Event) error {
	keep := watchLeast + rand.N(watchMost-watchLeast)
	bounded, cancel := context.WithTimeout(ctx, keep+watchSlack)
	defer cancel()

	err := l.watch(bounded, from, keep, events)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		return nil // it has lasted as long as a watch may
	}
	if err != nil {
		return l.explain(verbWatch, err)
	}
	return nil
}

func (l *Lock) watch(ctx context.Context, from election.Version, keep time.Duration, events chan<- election.Event) error {
	req := l.request(http.MethodGet).
		Param("watch", "true").
		Param("allowWatchBookmarks", "true").
		Param("fieldSelector", "metadata.name="+l.config.Name).
		Param("timeoutSeconds", strconv.Itoa(int(keep.Seconds()))).
		SetHeader("Accept", "application/json")
	if from.Number != 0 {
		req.Param("resourceVersion", strconv.FormatUint(from.Number, 10))
	}
	stream, err := req.Stream(ctx)
	if err != nil {
		return err
	}
	defer stream.Close()
	return l.follow(ctx, json.NewDecoder(stream), events)
}

// follow sends the events of a stream until that ends.
func (l *Lock) follow(ctx context.Context, stream *json.Decoder, events chan<- election.Event) error {
	for {
		var raw metav1.WatchEvent
		if err := stream.Decode(&raw); err != nil {
			return endOf(ctx, err)
		}
		event, ok, err := l.event(raw)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		select {
		case events <- event:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// endOf returns what the end of a stream means: nil if the server ended it.
func endOf(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, io.EOF):
		return nil
	default:
		return fmt.Errorf("reading the stream of events: %w", err)
	}
}

// event translates one event; ok is false for one that says nothing.
func (l *Lock) event(raw metav1.WatchEvent) (event election.Event, ok bool, err error) {
	if raw.Type == string(watch.Error) {
		return event, false, statusOf(raw.Object.Raw)
	}
	lease := &coordinationv1.Lease{}
	if err := json.Unmarshal(raw.Object.Raw, lease); err != nil {
		return event, false, fmt.Errorf("reading an event %q: %w", raw.Type, err)
	}
	s, err := l.snapshot(lease)
	if err != nil {
		return event, false, err
	}
	switch watch.EventType(raw.Type) {
	case watch.Added, watch.Modified:
		return election.Event{Snapshot: s}, lease.Name == l.config.Name, nil
	case watch.Deleted:
		return election.Event{Snapshot: record.Gone(lease.ResourceVersion)}, lease.Name == l.config.Name, nil
	case watch.Bookmark:
		return election.Event{Snapshot: record.Gone(lease.ResourceVersion), Bookmark: true}, true, nil
	default:
		return event, false, nil
	}
}

// statusOf returns the error that an ERROR event carries.
func statusOf(raw []byte) error {
	status := &metav1.Status{}
	if err := json.Unmarshal(raw, status); err != nil || status.Code == 0 && status.Message == "" {
		return fmt.Errorf("the server ended the watch with an error that cannot be read: %q", raw)
	}
	return apierrors.FromObject(status)
}
