// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rawapi

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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apierror"
)

// How long the server is asked to keep a watch, at random so that the watches of many
// candidates do not end together; and how much later this side ends it, in case the server is
// gone.
const (
	watchLeast = 5 * time.Minute
	watchMost  = 10 * time.Minute
	watchSlack = 10 * time.Second
)

// Event is one event of a watch. A bookmark's object has only its resourceVersion set; a
// deleted object is in its last state, at the resourceVersion of the deletion. A list passes on
// each of its objects as one that was added.
type Event[P any] struct {
	Type   watch.EventType // Added, Modified, Deleted or Bookmark
	Object P
}

// Watch passes each event of the object after the resourceVersion from to each, in order, and
// blocks. From zero it begins with the present object, if there is one. It is one request,
// which ends by itself after five to ten minutes, even if the server has fallen silent: nil
// then. An error of each ends it. The context of each ends with the watch. It runs in the
// caller's goroutine and starts none.
func (o Object[T, P]) Watch(ctx context.Context, from uint64, each func(context.Context, Event[P]) error) error {
	return o.WatchOpen(ctx, from, func() {}, each)
}

// WatchAll is Object.Watch for all objects that a query describes: an object that begins to match
// is Added, one that no longer matches is Deleted. from is the resourceVersion of a list.
func WatchAll[T any, P Type[T]](
	ctx context.Context, client rest.Interface, q Query, from uint64, each func(context.Context, Event[P]) error,
) error {
	return listed[T, P](client, q).Watch(ctx, from, each)
}

// WatchOpen is Watch, and calls opened once the server has accepted it, before the first
// event.
func (o Object[T, P]) WatchOpen(ctx context.Context, from uint64, opened func(), each func(context.Context, Event[P]) error) error {
	keep := watchLeast + rand.N(watchMost-watchLeast)
	bounded, cancel := context.WithTimeout(ctx, keep+watchSlack)
	defer cancel()

	stream, err := o.open(bounded, from, keep)
	if err == nil {
		opened()
		err = o.follow(bounded, stream, each)
	}
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		return nil // it has lasted as long as a watch may
	}
	return o.name.Explain(apierror.Watch, err)
}

func (o Object[T, P]) open(ctx context.Context, from uint64, keep time.Duration) (io.ReadCloser, error) {
	req := o.request(http.MethodGet).
		Param("watch", "true").
		Param("allowWatchBookmarks", "true").
		Param("timeoutSeconds", strconv.Itoa(int(keep.Seconds()))).
		SetHeader("Accept", "application/json")
	if o.name.Name != "" {
		req.Param("fieldSelector", "metadata.name="+o.name.Name)
	} else {
		req.Param("labelSelector", o.selector)
	}
	if from != 0 {
		req.Param("resourceVersion", strconv.FormatUint(from, 10))
	}
	return req.Stream(ctx)
}

// follow passes on the events of a stream until it ends.
func (o Object[T, P]) follow(ctx context.Context, stream io.ReadCloser, each func(context.Context, Event[P]) error) error {
	defer stream.Close()
	for events := json.NewDecoder(stream); ; {
		var said metav1.WatchEvent
		switch err := events.Decode(&said); {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, io.EOF):
			return nil // the server ended it
		case err != nil:
			return fmt.Errorf("reading the stream of events: %w", err)
		}
		switch kind := watch.EventType(said.Type); kind {
		case watch.Error:
			return statusOf(said.Object.Raw)
		case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
			object := P(new(T))
			if err := json.Unmarshal(said.Object.Raw, object); err != nil {
				return fmt.Errorf("reading an event %q: %w", kind, err)
			}
			if err := checkVersion(o.name.Kind, object.GetResourceVersion()); err != nil {
				return err
			}
			if err := each(ctx, Event[P]{kind, object}); err != nil {
				return err
			}
		}
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
