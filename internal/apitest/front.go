// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// view is what a read or a watch is answered from: the store, or a cache of it. The store's Mu guards it.
type view struct {
	at      int               // the version that it has reached
	oldest  int               // no watch starts from an older version
	objects map[string]change // that exist there, by path
	changed chan struct{}     // closed when there is more
	ended   chan struct{}     // closed to end all watches
}

type change struct {
	kind, path string
	place      place // of the path
	number     int
	raw        json.RawMessage
	was, is    labels.Set // nil where there was, or is, no object
}

func newView(at int) view {
	return view{at: at, objects: map[string]change{}, changed: make(chan struct{}), ended: make(chan struct{})}
}

// paths are those of all objects, in order.
func (v *view) paths() []string { return slices.Sorted(maps.Keys(v.objects)) }

// apply makes the view show changes.
func (v *view) apply(all ...change) {
	for _, c := range all {
		if v.at = c.number; c.is == nil {
			delete(v.objects, c.path)
		} else {
			v.objects[c.path] = c
		}
	}
}

// end ends all watches, and lets none start from a version older than now.
func (v *view) end() {
	v.oldest = v.at
	renew(&v.ended)
}

// renew closes a channel, and puts another in its place.
func renew(c *chan struct{}) {
	close(*c)
	*c = make(chan struct{})
}

// Front is one of several API servers over the objects of a [Server], with a watch cache of its
// own. As with the real one, watches come from the cache, and so do reads that name a
// resourceVersion: zero takes what there is; another waits for it up to three seconds. Writes and
// other reads go to the store. Make one with [Server.NewFront].
type Front struct {
	store *Server
	// Waits says that a list from the store waits for the cache like one that names the newest
	// resourceVersion, as servers since Kubernetes 1.31 do before they fall back to the store.
	Waits bool

	view // of the cache
	lag  time.Duration
}

// Still is the lag of a cache that stands still.
const Still time.Duration = math.MaxInt64

// freshness is how long a read waits for a version that the cache has not reached.
const freshness = 3 * time.Second

// NewFront returns an API server whose cache follows the store at once. All begin before the
// first object is stored.
func (a *Server) NewFront() *Front {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	f := &Front{store: a, view: newView(a.at)}
	a.fronts = append(a.fronts, f)
	return f
}

// Lag makes all that the cache does not show yet, and all that is stored from now on, reach it
// only after a while; if that is zero, at once.
func (f *Front) Lag(lag time.Duration) {
	f.store.Mu.Lock()
	defer f.store.Mu.Unlock()
	f.lag = lag
	f.follow()
}

// Restart begins another cache with a list as old as that many changes. It has no history, and
// the watches end. It stands still until Lag.
func (f *Front) Restart(behind int) {
	f.store.Mu.Lock()
	defer f.store.Mu.Unlock()
	at := f.store.at - behind
	f.lag, f.at, f.objects = Still, at, map[string]change{}
	f.apply(f.store.between(0, at)...)
	f.end()
}

// follow makes the cache show what is stored. The caller holds the store's Mu.
func (f *Front) follow() {
	switch newest := f.store.at; f.lag {
	case Still:
	case 0:
		f.reach(newest)
	default:
		time.AfterFunc(f.lag, func() {
			f.store.Mu.Lock()
			defer f.store.Mu.Unlock()
			if f.lag != Still {
				f.reach(newest)
			}
		})
	}
}

// reach makes the cache show all changes up to a version. The caller holds the store's Mu.
func (f *Front) reach(version int) {
	if version > f.at {
		f.apply(f.store.between(f.at, version)...)
		renew(&f.changed)
	}
}

// ServeHTTP serves the API.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	from := &f.view
	if r.Method == http.MethodGet && q.Get("watch") != "true" {
		switch wanted, _ := strconv.Atoi(q.Get("resourceVersion")); {
		case q.Get("resourceVersion") == "":
			if from = &f.store.view; f.Waits && verbOf(r) == "list" {
				f.store.Mu.Lock()
				newest := f.store.at
				f.store.Mu.Unlock()
				f.await(r.Context(), newest)
			}
		default:
			if at := f.await(r.Context(), wanted); at < wanted {
				Reply(w, http.StatusGatewayTimeout, tooLarge(wanted, at))
				return
			}
		}
	}
	f.store.serve(w, r, from)
}

// await waits until the cache has reached a version, but not for long, and returns the one that
// it has reached.
func (f *Front) await(ctx context.Context, version int) int {
	late := time.NewTimer(freshness)
	defer late.Stop()
	for {
		f.store.Mu.Lock()
		at, changed := f.at, f.changed
		f.store.Mu.Unlock()
		if at >= version {
			return at
		}
		select {
		case <-changed:
		case <-late.C:
			return at
		case <-ctx.Done():
			return at
		}
	}
}

func tooLarge(wanted, at int) Object {
	message := fmt.Sprintf("Too large resource version: %d, current: %d", wanted, at)
	status := Status(http.StatusGatewayTimeout, "Timeout", message, "", "", "ResourceVersionTooLarge")
	status["details"].(Object)["retryAfterSeconds"] = 1
	return status
}
