// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks"
)

// watching runs a watch that ends with the test.
func watching(t *testing.T, l *Lock, from locks.Version) (<-chan locks.Event, <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	events, ended := make(chan locks.Event), make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended <- l.Watch(ctx, from, events)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return events, ended
}

// TestS4AWatchSaysThatItLeavesNothingOut, for a deletion too: from this the candidate
// that recreates the Lease knows whether another recreated it before.
func TestS4AWatchSaysThatItLeavesNothingOut(t *testing.T) {
	a, client := newAPIServer(t)
	l := mustNew(t, client)
	first := mustWrite(t, l, locks.Version{}, recordOf("a", 1))
	mustWrite(t, l, first.Version, recordOf("b", 2))
	a.Delete(path)
	mustWrite(t, l, locks.Version{}, recordOf("c", 3))
	events, _ := watching(t, l, first.Version)
	for _, what := range []string{"a write", "a deletion", "a creation"} {
		if e := <-events; !e.Gapless {
			t.Errorf("%s is told as %+v", what, e)
		}
	}
}

// dies is a line at which the connection breaks off.
const dies = ""

// streaming serves a watch with lines.
func streaming(lines ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for _, line := range lines {
			if line == dies {
				panic(http.ErrAbortHandler)
			}
			fmt.Fprintln(w, line)
			w.(http.Flusher).Flush()
		}
	}
}

// lease is a Lease as an API server sends it.
func lease(version string) object {
	return object{
		"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "spec": object{"holderIdentity": "a"},
		"metadata": object{"name": "lock", "namespace": "ns", "uid": "u", "resourceVersion": version},
	}
}

// event is a line of a watch.
func event(kind string, o any) string {
	return string(apitest.Marshal(object{"type": kind, "object": o}))
}

func failure(code int, reason, message string, causes ...string) string {
	return event("ERROR", apitest.Status(code, reason, message, "", "", causes...))
}

func TestWhatAWatchSendsAndHowItEnds(t *testing.T) {
	added := event("ADDED", lease("7"))
	tooOld := failure(410, "Expired", "too old resource version: 1 (5)")
	tooLarge := failure(504, "Timeout", "Too large resource version: 9, current: 5", "ResourceVersionTooLarge")
	one := []string{"record 7"}
	for name, tc := range map[string]struct {
		lines []string
		sends []string // kind of event and number
		kind  error
		says  string // of the error; empty for none
	}{
		"the server ends it":   {[]string{added}, one, nil, ""},
		"a bookmark":           {[]string{event("BOOKMARK", lease("9"))}, []string{"bookmark 9"}, nil, ""},
		"a deletion":           {[]string{added, event("DELETED", lease("8"))}, []string{"record 7", "gone 8"}, nil, ""},
		"a kind of the future": {[]string{event("RENAMED", lease("8")), added}, one, nil, ""},
		"history is gone":      {[]string{tooOld}, nil, locks.ErrVersionExpired, "too old"},
		"history is unwritten": {[]string{tooLarge}, nil, locks.ErrVersionExpired, "backup"},
		"an error":             {[]string{added, failure(500, "InternalError", "etcd is gone")}, one, nil, "etcd is gone"},
		"an odd error":         {[]string{event("ERROR", object{})}, nil, nil, "cannot be read"},
		"an odd object":        {[]string{event("ADDED", []string{})}, nil, nil, "ADDED"},
		"no version":           {[]string{event("ADDED", lease(""))}, nil, nil, "resourceVersion"},
		"no JSON":              {[]string{`<html>`}, nil, nil, "stream of events"},
		"the connection dies":  {[]string{added, dies}, one, nil, "stream of events"},
		"dies in an event":     {[]string{added, added[:20], dies}, one, nil, "stream of events"},
	} {
		t.Run(name, func(t *testing.T) {
			l := mustNew(t, clientOf(t, streaming(tc.lines...)))
			events, ended := watching(t, l, locks.Version{Number: 5})
			for _, want := range tc.sends {
				if got := describe(<-events); got != want {
					t.Errorf("event %q, want %q", got, want)
				}
			}
			err := <-ended
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("ended with %v, want %q", err, tc.says)
			}
			if tc.kind != nil && !errors.Is(err, tc.kind) {
				t.Errorf("ended with %v, want %v", err, tc.kind)
			}
		})
	}
}

func describe(e locks.Event) string {
	number := strconv.FormatUint(e.Snapshot.Version.Number, 10)
	switch {
	case e.Bookmark:
		return "bookmark " + number
	case e.Snapshot.Version.Exists():
		return "record " + number
	default:
		return "gone " + number
	}
}

func TestAWatchAsksForOneLeaseAndABoundedTime(t *testing.T) {
	for from, want := range map[uint64]string{0: "", 42: "42"} {
		queries := make(chan url.Values, 1)
		l := mustNew(t, clientOf(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			q.Set("path", r.URL.Path)
			queries <- q
		})))
		must(t, l.Watch(t.Context(), locks.Version{Number: from}, nil))
		q := <-queries
		seconds, err := strconv.Atoi(q.Get("timeoutSeconds"))
		if err != nil || seconds < 300 || seconds > 600 {
			t.Errorf("timeoutSeconds %q", q.Get("timeoutSeconds"))
		}
		if q.Get("resourceVersion") != want || q.Has("resourceVersion") != (want != "") {
			t.Errorf("resourceVersion %q, want %q", q["resourceVersion"], want)
		}
		selects := q.Get("fieldSelector") == "metadata.name=lock" && q.Get("path") == strings.TrimSuffix(path, "/lock")
		if !selects || q.Get("allowWatchBookmarks") != "true" {
			t.Errorf("query %v", q)
		}
	}
}
