// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ctrlruntime

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	toolscache "k8s.io/client-go/tools/cache"
)

// informers are those of a lasting manager's cache. They know which of them have heard from the API
// since a term began. They also repeat requests that fail, because a reflector whose watch fails lists
// again, and waits for up to a minute before it does.
type informers struct {
	log logr.Logger

	mu    sync.Mutex
	all   []*informer
	term  uint64        // counts terms
	awake chan struct{} // closed by wake
	heard chan struct{} // closed when an informer has heard from the API
}

func newInformers() *informers {
	return &informers{awake: make(chan struct{}), heard: make(chan struct{})}
}

// newInformer is the type of cache.Options.NewInformer.
type newInformer = func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer

// maker returns the function by which a cache makes its informers.
func (all *informers) maker(build newInformer) newInformer {
	if build == nil {
		build = toolscache.NewSharedIndexInformer
	}
	return func(from toolscache.ListerWatcher, o runtime.Object, resync time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
		what := o.GetObjectKind().GroupVersionKind().Kind
		if what == "" {
			what = strings.TrimPrefix(fmt.Sprintf("%T", o), "*")
		}
		l := &lister{of: all, what: what, source: toolscache.ToListerWatcherWithContext(from)}
		i := build(l, o, resync, by)
		all.mu.Lock()
		defer all.mu.Unlock()
		l.made = all.term
		all.all = append(all.living(), &informer{l, i})
		return i
	}
}

type informer struct {
	*lister
	toolscache.SharedIndexInformer
}

// living are those that have not been removed from the cache. all.mu is held.
func (all *informers) living() []*informer {
	return slices.DeleteFunc(all.all, func(i *informer) bool { return i.IsStopped() })
}

// wake has all requests that failed be repeated now.
func (all *informers) wake() {
	all.mu.Lock()
	defer all.mu.Unlock()
	close(all.awake)
	all.awake = make(chan struct{})
}

// hear returns when each informer has heard from the API since this call, so that what it shows is no
// older, or by at most as much as the server that answered is behind. If that takes longer than
// within, it returns an error.
func (all *informers) hear(ctx context.Context, within time.Duration) error {
	all.mu.Lock()
	all.term++
	all.all = all.living()
	for _, i := range all.all {
		if i.watch != nil {
			i.watch.renew()
		}
	}
	all.mu.Unlock()
	all.wake()
	return all.await(ctx, within)
}

// await is the end of hear.
func (all *informers) await(ctx context.Context, within time.Duration) error {
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	look := time.NewTicker(time.Second) // an informer may be removed, and nothing says so
	defer look.Stop()
	for {
		silent, heard := all.silent()
		if len(silent) == 0 {
			return nil
		}
		select {
		case <-heard:
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout.C:
			return fmt.Errorf("no list and no watch of %s was answered within %v of the beginning of the term, "+
				"so that controllers would act on an older state: is that kind still there, and may this operator watch it?", strings.Join(silent, ", "), within)
		}
	}
}

// silent are the informers that have not heard from the API in this term. One that was made in it is
// none of them, and one that has not synced shows nothing: who reads it waits. The channel is closed
// when another one has heard.
func (all *informers) silent() (names []string, heard <-chan struct{}) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, i := range all.all {
		if i.inTerm < all.term && i.made < all.term && !i.IsStopped() && i.HasSynced() {
			names = append(names, i.what)
		}
	}
	return names, all.heard
}

// lister is what an informer lists and watches by.
type lister struct {
	of     *informers
	what   string
	source toolscache.ListerWatcherWithContext
	made   uint64 // the term in which it was made

	// Guarded by of.mu:
	inTerm uint64  // the term in which it has heard from the API
	watch  *stream // the newest
}

// IsWatchListSemanticsUnSupported tells reflectors what that of the cache would.
func (l *lister) IsWatchListSemanticsUnSupported() bool {
	from, is := l.source.(interface{ IsWatchListSemanticsUnSupported() bool })
	return is && from.IsWatchListSemanticsUnSupported()
}

func (l *lister) List(o metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), o)
}

func (l *lister) ListWithContext(ctx context.Context, o metav1.ListOptions) (list runtime.Object, err error) {
	_, err = l.repeat(ctx, func() error {
		list, err = l.source.ListWithContext(ctx, o)
		return err
	})
	return list, err
}

// hears says that the informer shows what there was when a request of that term was sent.
func (l *lister) hears(term uint64) {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if term > l.inTerm {
		l.inTerm = term
		close(l.of.heard)
		l.of.heard = make(chan struct{})
	}
}

// repeat repeats a request until it is answered. It returns the term in which that was sent.
func (l *lister) repeat(ctx context.Context, request func() error) (term uint64, err error) {
	pause := backoff.NewExponentialBackOff(backoff.WithMaxInterval(10*time.Second), backoff.WithMaxElapsedTime(0))
	for tried := 0; ; tried++ {
		l.of.mu.Lock()
		term, awake := l.of.term, l.of.awake
		l.of.mu.Unlock()
		if err = request(); err == nil || !fleeting(err) || ctx.Err() != nil {
			if err == nil && tried > 0 {
				l.of.log.Info("the cache hears from the API again", "kind", l.what)
			}
			return term, err
		}
		if tried == 0 {
			l.of.log.Error(err, "the cache hears nothing from the API: it keeps what it has, and tries again", "kind", l.what)
		}
		wait := time.NewTimer(pause.NextBackOff())
		select {
		case <-wait.C:
		case <-awake:
		case <-ctx.Done():
		}
		wait.Stop()
		if ctx.Err() != nil {
			return term, ctx.Err()
		}
	}
}

// fleeting reports whether the same request may succeed later. One for a version that the server does
// not have yet may not: after etcd was restored it never has it, and the reflector lists what there is.
func fleeting(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		var sending *url.Error // what was answered cannot be read otherwise
		return errors.As(err, &sending) || utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err)
	}
	code := answer.Status().Code
	late := apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
	return !late && (code >= http.StatusInternalServerError || code == http.StatusTooManyRequests)
}
