// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leasewatch follows all Leases of a namespace by one list and one watch, for any
// number of locks. It needs the verbs list and watch on leases in that namespace.
package leasewatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/live"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
)

// Config says which Leases a View follows and how to reach them.
type Config struct {
	// Client talks to the API group coordination.k8s.io/v1. Required.
	Client    rest.Interface
	Namespace string // required
	// Patience is how long the view leaves a request or a watch that owes it something
	// before it tries another connection. Required.
	Patience time.Duration
	// Limit bounds each list. Required.
	Limit time.Duration
	// Restarted, if set, is called when a watch is about to follow another one: by how that
	// one ended, or whether it was ended because another connection was wanted.
	Restarted func(replaced bool, err error)
	// Logger gets each new problem once. The zero Logger drops it.
	Logger logr.Logger
}

// State is what is known of one Lease at some moment. The zero State is that of a Lease of
// which nothing was ever seen.
type State struct {
	// Lease is nil if there is none. It is shared: nobody changes it. It has no managed
	// fields, which the server keeps when it is written without them.
	Lease *coordinationv1.Lease
	// Cut reports that there is a Lease which is not kept: Lease is nil, and nobody may take
	// that for a deletion. Either it is too long, or it was not asked for when it was seen.
	Cut bool
	// Number is the resourceVersion of the change that made this state: a write or a
	// deletion. If a list found no Lease, it is the resourceVersion of the list.
	Number uint64
	// tooLong reports that it is cut although it was asked for.
	tooLong bool
}

// View follows the Leases of a namespace. Make one with [New]; it knows something once Run
// has made its first list. Its methods are safe for concurrent use.
type View struct {
	config Config
	reads  reads

	mu sync.Mutex
	wanted
	kept
	at      uint64        // all changes up to this version are known; zero before the first list
	stale   bool          // the history went back: nothing counts until another list has shown how all is
	lacks   bool          // somebody has asked for a Lease that is not kept: another list shows it
	counted uint64        // the subscriptions that there ever were
	reached chan struct{} // closed, and replaced, when at grows
	recent  history
	waiting map[uint64]*Subscription // by number, until anything is known
	renew   context.CancelFunc
	fresh   time.Time // the next watch is on a connection that was alive after this; zero if any will do
	doubted time.Time
	missed  time.Time // when a watch was last doubted because somebody missed news
	heard   time.Time // when the watch last reported anything, or the last list came
	problem string
}

// New returns a View that knows nothing yet.
func New(c Config) (*View, error) {
	if err := rawapi.CheckClient(c.Client, apierror.Leases); err != nil {
		return nil, fmt.Errorf("watching the leases of namespace %q: %w", c.Namespace, err)
	}
	v := &View{config: c, kept: kept{leases: map[string]State{}}, wanted: newWanted(), waiting: map[uint64]*Subscription{}, reached: make(chan struct{}), renew: func() {}}
	v.reads = reads{list: v.linearizable, patience: c.Patience, misses: v.missesNews}
	return v, nil
}

// Run keeps the view up to date until ctx ends.
func (v *View) Run(ctx context.Context) {
	delays := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(v.config.Patience/8), backoff.WithMaxInterval(15*v.config.Patience), backoff.WithMaxElapsedTime(0))
	for ctx.Err() == nil {
		began := time.Now()
		renewed, err := v.follow(ctx)
		v.report(ctx, err)
		if v.config.Restarted != nil && ctx.Err() == nil {
			v.config.Restarted(renewed, err)
		}
		long := time.Since(began) > time.Second
		if renewed || long { // else a proxy that cuts watches would lengthen the pauses
			delays.Reset()
		}
		if renewed || long && err == nil {
			continue
		}
		_ = sleep.For(ctx, delays.NextBackOff())
	}
}

// report logs a problem when it is new.
func (v *View) report(ctx context.Context, err error) {
	if ctx.Err() != nil || errors.Is(err, locks.ErrVersionExpired) {
		return
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	v.mu.Lock()
	is := text != v.problem
	v.problem = text
	v.mu.Unlock()
	if is && text != "" {
		v.config.Logger.Info("the leases of the namespace cannot be watched: this candidate hears late of others", "namespace", v.config.Namespace, "cause", text)
	}
}

// follow lists if that is necessary, and watches. It reports whether the watch ended only
// because another connection is wanted.
func (v *View) follow(ctx context.Context) (renewed bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	v.mu.Lock()
	v.forget(time.Now())
	from, fresh, stale, lacks := v.at, v.fresh, v.stale, v.lacks
	ended := false
	v.renew = func() { ended = true; cancel() }
	v.fresh = time.Time{}
	v.mu.Unlock()
	if !fresh.IsZero() {
		ctx = live.Since(ctx, fresh)
	}
	if from == 0 || stale || lacks {
		if from, err = v.relist(ctx, from, stale); err == nil {
			err = v.watchFrom(ctx, from)
		}
	} else {
		err = v.watchFrom(ctx, from)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.renew = func() {}
	if ended {
		return true, nil
	}
	return false, err
}

// relist makes a list all that is known, and returns its version. Unless it must show the
// newest state, the list may come from the server's cache, but is not older than a version.
func (v *View) relist(ctx context.Context, notOlder uint64, newest bool) (uint64, error) {
	list, err := v.list(ctx, rawapi.Query{Cached: !newest, NotOlder: notOlder})
	if err != nil {
		return 0, err
	}
	v.replace(list, newest)
	return list.at, nil
}

func (v *View) watchFrom(ctx context.Context, from uint64) error {
	q := rawapi.Query{Resource: apierror.Leases, Namespace: v.config.Namespace, Long: v.wants}
	err := rawapi.WatchAll(ctx, v.config.Client, q, from, func(_ context.Context, e rawapi.Event[*coordinationv1.Lease]) error {
		v.apply(e)
		return nil
	})
	if errors.Is(err, locks.ErrVersionExpired) {
		v.mu.Lock()
		v.at = 0
		v.mu.Unlock()
	}
	return err
}

// list makes a list. It keeps of each Lease no more than is wanted.
func (v *View) list(ctx context.Context, q rawapi.Query) (*Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, v.config.Limit)
	defer cancel()
	q.Resource, q.Namespace, q.Long = apierror.Leases, v.config.Namespace, v.wants
	r := &Reading{}
	var err error
	r.at, err = rawapi.ListEach(ctx, v.config.Client, q, func() { r.kept = kept{leases: map[string]State{}} }, func(e rawapi.Event[*coordinationv1.Lease]) {
		v.mu.Lock()
		defer v.mu.Unlock()
		r.put(e, &v.wanted)
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// linearizable lists the Leases as they are at some moment after the call.
func (v *View) linearizable(ctx context.Context) (*Reading, error) {
	return v.list(ctx, rawapi.Query{})
}

// replace makes the list all that is known. Subscriptions hear what may have changed, as a gap:
// a Lease that does not exist, as before, may have come and gone.
func (v *View) replace(list *Reading, newest bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for name, subs := range v.subs {
		was, is := v.leases[name], list.Get(name)
		if is.Lease == nil || was.Number != is.Number || was.Cut {
			for _, s := range subs {
				s.push(Change{Name: name, State: is, Gap: true})
			}
		}
	}
	v.kept, v.recent, v.stale = list.kept, history{after: list.at}, v.stale && !newest
	v.lacks = false
	for name := range v.asked { // also while the list was read
		v.needs(name)
	}
	v.advance(list.at)
}

// apply notes one event of the watch.
func (v *View) apply(e rawapi.Event[*coordinationv1.Lease]) {
	number := record.Number(e.Object.ResourceVersion)
	v.mu.Lock()
	defer v.mu.Unlock()
	if e.Type != kubewatch.Bookmark {
		name := e.Object.Name
		state := v.put(e, &v.wanted)
		v.recent.add(Change{Name: name, State: v.remembered(name, state)}, time.Now())
		if state.Lease == nil && !state.Cut && len(v.subs[name]) == 0 {
			v.drop(name)
		}
		for _, s := range v.subs[name] {
			s.push(Change{Name: name, State: state})
		}
	}
	v.advance(number)
}

// advance notes up to where all is known. The caller holds mu.
func (v *View) advance(at uint64) {
	v.at, v.heard = at, time.Now()
	close(v.reached)
	v.reached = make(chan struct{})
	for _, s := range v.waiting {
		s.signal()
	}
	clear(v.waiting)
}

// state is what is known of a Lease. The caller holds mu.
func (v *View) state(name string) State {
	s, known := v.leases[name]
	if !known {
		s.Number = v.at
	}
	return s
}

// At is the version up to which all changes are known; zero before the first list.
func (v *View) At() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.at
}

// WentBack tells the view that the history of the Leases went back, as when a database is
// restored from a backup. What the view has shown counts for nothing then.
func (v *View) WentBack() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stale = true
	v.renew()
}

// Get returns what the watch has shown of a Lease.
func (v *View) Get(name string) State {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ask(name)
	return v.state(name)
}

// GetSince is Get if the watch has shown all changes up to a version.
func (v *View) GetSince(name string, version uint64) (State, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ask(name)
	return v.state(name), v.at >= version && !v.stale
}

// NextAfter returns the version of the first change of a Lease after a version; zero if there
// was none, or if the watch has not shown it or has shown it long ago.
func (v *View) NextAfter(name string, version uint64) uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	changes, _ := v.recent.since(name, version)
	if v.stale || len(changes) == 0 {
		return 0
	}
	return changes[0].State.Number
}

// Leases returns the Leases that the watch has shown and that are kept, by name.
func (v *View) Leases() []*coordinationv1.Lease {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := make([]*coordinationv1.Lease, 0, len(v.leases))
	for _, name := range slices.Sorted(maps.Keys(v.leases)) {
		if lease := v.leases[name].Lease; lease != nil {
			all = append(all, lease)
		}
	}
	return all
}

// Reach waits until the watch has shown all changes up to a version, and reports whether it
// has. It gives up when ctx ends, or after the patience: then the watch may be dead, and the
// view watches on another connection.
func (v *View) Reach(ctx context.Context, version uint64) bool {
	late := time.NewTimer(v.config.Patience)
	defer late.Stop()
	for {
		v.mu.Lock()
		is, reached := v.at >= version && !v.stale, v.reached
		v.mu.Unlock()
		if is {
			return true
		}
		select {
		case <-reached:
		case <-ctx.Done():
			return false
		case <-late.C:
			v.doubt()
			return false
		}
	}
}

// Expect has the view see to it that the watch soon shows a version, which exists.
func (v *View) Expect(version uint64) {
	v.mu.Lock()
	at := v.at
	v.mu.Unlock()
	if at == 0 || at >= version {
		return
	}
	time.AfterFunc(v.config.Patience, func() {
		v.mu.Lock()
		late := v.at != 0 && v.at < version
		v.mu.Unlock()
		if late {
			v.doubt()
		}
	})
}

// missesNews tells the view that somebody misses news and reads. If the watch has been silent
// for two patiences by then, or by the answer to the read, another watch begins on another
// connection. While etcd has no leader, no read is answered, but an API server goes on to tell
// its watches what it has in memory. That happens seldom: if etcd stays away, so does what the
// watches could tell. The caller calls answered after the read.
func (v *View) missesNews() (answered func()) {
	v.mu.Lock()
	heard := v.heard
	v.mu.Unlock()
	doubt := func() {
		v.mu.Lock()
		now := time.Now()
		due := v.heard.Equal(heard) && now.Sub(v.missed) > 60*v.config.Patience
		if due {
			v.missed = now
		}
		v.mu.Unlock()
		if due {
			v.doubt()
		}
	}
	wait := time.Until(heard.Add(2 * v.config.Patience))
	if wait <= 0 {
		doubt()
		return func() {}
	}
	late := time.AfterFunc(wait, doubt)
	return func() { late.Stop() }
}

// doubt begins another watch, on another connection. It does so once in a patience.
func (v *View) doubt() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now := time.Now(); v.doubted.IsZero() || now.Sub(v.doubted) >= v.config.Patience {
		v.doubted, v.fresh = now, now
		v.renew()
	}
}
