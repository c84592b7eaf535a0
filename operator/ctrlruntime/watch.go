// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ctrlruntime

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// settled is for how long nothing comes when a watch has shown what there was when it was opened,
	// and the informer's store has it: the server sends that at once, or an error if it does not know
	// the version from which the watch is to go on.
	settled = 200 * time.Millisecond
	// fruitless is how many watches in a row may end with an error and show nothing, until the
	// reflector gets that error: there may be an event that nobody can decode, and it lists again.
	fruitless = 3
	// busy is when what a watch shows is not what there was when it was opened, though there was no
	// moment without an event.
	busy = 5 * time.Second
)

func (l *lister) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), o)
}

func (l *lister) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	s := &stream{lister: l, options: o, events: make(chan watch.Event), renewed: make(chan struct{}, 1),
		pause: backoff.NewExponentialBackOff(backoff.WithInitialInterval(time.Second), backoff.WithMaxInterval(30*time.Second), backoff.WithMaxElapsedTime(0))}
	ctx, s.stop = context.WithCancel(ctx)
	if err := s.open(ctx); err != nil {
		s.stop()
		return nil, err
	}
	go s.run(ctx)
	return s, nil
}

// stream is a watch for a reflector. It ends when the reflector can open the next one from the last
// event that it got. A reflector lists again after a watch that fails, and after one that ends within a
// second without an event: the stream goes on there.
type stream struct {
	*lister
	options metav1.ListOptions
	from    watch.Interface
	term    uint64    // in which from was opened
	opened  time.Time // or when all that was there had been shown
	events  chan watch.Event
	shown   bool          // there was an event
	failed  int           // how many watches in a row ended with an error, and showed nothing
	took    time.Duration // until from was answered
	renewed chan struct{}
	pause   *backoff.ExponentialBackOff
	stop    context.CancelFunc
}

func (s *stream) ResultChan() <-chan watch.Event { return s.events }

func (s *stream) Stop() { s.stop() }

// renew has the stream open another watch, to hear from the API.
func (s *stream) renew() {
	select {
	case s.renewed <- struct{}{}:
	default: // it is told already
	}
}

// open opens the watch on which all follows.
func (s *stream) open(ctx context.Context) (err error) {
	s.term, err = s.repeat(ctx, func() (err error) {
		began := time.Now()
		defer func() { s.took = time.Since(began) }()
		s.from, err = s.source.WatchWithContext(ctx, s.options)
		return err
	})
	if err != nil {
		return err
	}
	s.opened = time.Now()
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.watch = s; s.term < s.of.term {
		s.renew()
	}
	return nil
}

// run passes events on until the reflector has to open the next watch.
func (s *stream) run(ctx context.Context) {
	defer close(s.events)
	defer s.stop()
	for s.pass(ctx); !s.shown && ctx.Err() == nil; s.pass(ctx) {
		if s.open(ctx) != nil {
			return // the reflector gets the error when it opens the next one
		}
	}
}

// pass passes on the events of one watch.
func (s *stream) pass(ctx context.Context) {
	defer s.end()
	settles := max(settled, s.took) // a slow server may be slow to say the rest
	quiet := time.NewTimer(settles)
	defer quiet.Stop()
	for {
		renewed := s.renewed
		if s.lists() {
			renewed = nil // to start the list over would take longer
		}
		select {
		case e, is := <-s.from.ResultChan():
			if is && e.Type == watch.Error && fleeting(apierrors.FromObject(e.Object)) {
				s.failed++
				is = s.failed > fruitless
			}
			if !is {
				s.rest(ctx)
				return
			}
			select {
			case s.events <- e:
				s.shown = true
			case <-ctx.Done():
				return
			}
			if e.Type == watch.Error {
				return
			}
			s.failed = 0
			if s.lists() && e.Type == watch.Bookmark {
				s.listed(e)
			}
			if time.Since(s.opened) < busy {
				quiet.Reset(settles)
			}
		case <-quiet.C:
			if !s.lists() {
				s.hears(s.term)
				s.pause.Reset()
			}
		case <-renewed:
			return
		case <-ctx.Done():
			return
		}
	}
}

// end ends the watch on which all follows. What it still sends is dropped: some watches block until
// somebody takes it.
func (s *stream) end() {
	s.from.Stop()
	go func(events <-chan watch.Event) {
		for range events { //nolint:revive // until it is closed
		}
	}(s.from.ResultChan())
}

// rest keeps a server that closes each watch at once from being asked at once.
func (s *stream) rest(ctx context.Context) {
	wait := time.NewTimer(s.pause.NextBackOff() - time.Since(s.opened))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-s.renewed:
	case <-ctx.Done():
	}
}

// lists reports whether the watch begins with all that is there, and has not shown all of it yet.
func (s *stream) lists() bool {
	return s.options.SendInitialEvents != nil && *s.options.SendInitialEvents
}

// listed recognizes the bookmark that says that all has been shown. From there on this is a watch like
// any other, to the reflector too.
func (s *stream) listed(bookmark watch.Event) {
	o, err := meta.Accessor(bookmark.Object)
	if err != nil || o.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" {
		return
	}
	s.options.SendInitialEvents, s.options.ResourceVersionMatch = nil, ""
	s.options.ResourceVersion = o.GetResourceVersion()
	s.opened = time.Now()
	s.shown = false
}
