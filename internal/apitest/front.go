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

// Front is one of several API servers over the objects of a [Server], with a watch cache of its
// own. As with the real one, watches come from the cache, and so do reads that name a
// resourceVersion: zero takes what there is; another waits for it up to three seconds. Writes and
// other reads go to the store. Make one with [Server.NewFront].
type Front struct {
	store *Server
	// Waits says that a list from the store waits for the cache like one that names the newest
	// resourceVersion, as servers since Kubernetes 1.31 do before they fall back to the store.
	Waits bool

	// What follows is guarded by the store's Mu.

	lag     time.Duration
	at      int               // the version that the cache has reached
	oldest  int               // no watch starts from an older version
	objects map[string]change // that exist there, by path
	changed chan struct{}
	ended   chan struct{} // closed to end all watches
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
	f := &Front{store: a, at: a.number, objects: map[string]change{}, changed: make(chan struct{}), ended: make(chan struct{})}
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
	at := f.store.number - behind
	f.lag, f.at, f.objects = Still, 0, map[string]change{}
	f.apply(at)
	f.oldest = at
	close(f.ended)
	f.ended = make(chan struct{})
}

// follow makes the cache show what is stored. The caller holds the store's Mu.
func (f *Front) follow() {
	switch newest := f.store.number; f.lag {
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
		f.apply(version)
		close(f.changed)
		f.changed = make(chan struct{})
	}
}

func (f *Front) apply(version int) {
	for _, c := range f.store.between(f.at, version) {
		if c.is == nil {
			delete(f.objects, c.path)
		} else {
			f.objects[c.path] = c
		}
	}
	f.at = version
}

// ServeHTTP serves the API.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	var from source = f
	if r.Method == http.MethodGet && q.Get("watch") != "true" {
		switch wanted, _ := strconv.Atoi(q.Get("resourceVersion")); {
		case q.Get("resourceVersion") == "":
			if from = f.store; f.Waits && isList(r.URL.Path) {
				f.store.Mu.Lock()
				newest := f.store.number
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
	status := Status(http.StatusGatewayTimeout, "Timeout", fmt.Sprintf("Too large resource version: %d, current: %d", wanted, at), "", "", "ResourceVersionTooLarge")
	status["details"].(Object)["retryAfterSeconds"] = 1
	return status
}

// source is what a read or a watch is answered from: the store, or a cache of it. Its caller
// holds the store's Mu.
type source interface {
	version() int
	paths() []string // of all objects, in order
	object(path string) (raw json.RawMessage, is labels.Set, exists bool)
	// signals returns the version that no watch may begin before, and the channels that are
	// closed when there is more and when all watches are to end.
	signals() (oldest int, changed, ended <-chan struct{})
}

func (a *Server) version() int { return a.number }

func (a *Server) paths() []string { return slices.Sorted(maps.Keys(a.Objects)) }

func (a *Server) object(path string) (json.RawMessage, labels.Set, bool) {
	o, exists := a.Objects[path]
	if !exists {
		return nil, nil, false
	}
	return a.encoded(path), labelsOf(o), true
}

func (a *Server) signals() (oldest int, changed, ended <-chan struct{}) {
	return a.compacted, a.changed, a.ended
}

func (f *Front) version() int { return f.at }

func (f *Front) paths() []string { return slices.Sorted(maps.Keys(f.objects)) }

func (f *Front) object(path string) (json.RawMessage, labels.Set, bool) {
	c, exists := f.objects[path]
	return c.raw, c.is, exists
}

func (f *Front) signals() (oldest int, changed, ended <-chan struct{}) {
	return f.oldest, f.changed, f.ended
}
