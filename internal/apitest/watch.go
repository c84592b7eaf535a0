// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"fmt"
	"net/http"
	"sort"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// bookmarkEvery is how often a watch that asks for bookmarks gets one.
const bookmarkEvery = time.Minute

// watch sends the events of a place until the client goes or the time that it asked for is over.
func (a *Server) watch(w http.ResponseWriter, r *http.Request, of place, from *view) {
	q := r.URL.Query()
	wanted, err := labels.Parse(q.Get("labelSelector"))
	if err != nil {
		Reply(w, http.StatusBadRequest, Status(http.StatusBadRequest, "BadRequest", err.Error(), "", ""))
		return
	}
	after, _ := strconv.Atoi(q.Get("resourceVersion"))
	seconds, _ := strconv.Atoi(q.Get("timeoutSeconds"))
	if seconds == 0 {
		seconds = 1800
	}
	over := time.NewTimer(time.Duration(seconds) * time.Second)
	defer over.Stop()
	bookmark := time.NewTicker(bookmarkEvery)
	defer bookmark.Stop()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush() // answer at once, though nothing may happen for long
	a.Mu.Lock()
	oldest, ended := from.oldest, from.ended
	a.Mu.Unlock()
	if after != 0 && after < oldest {
		send(w, "ERROR", Marshal(Status(http.StatusGone, "Expired", "too old resource version", "", "")))
		return
	}
	lists := q.Get("sendInitialEvents") == "true"
	if lists {
		after = 0
	}
	for {
		events, newest, changed := a.since(of, after, from)
		for _, e := range events {
			if kind := e.seenBy(wanted); kind != "" {
				send(w, kind, e.raw) // without the lock: nobody may be reading
			}
		}
		after = max(after, newest) // a version of the future stays one, as with the real server
		if lists {
			send(w, "BOOKMARK", a.bookmark(of, after, Object{metav1.InitialEventsAnnotationKey: "true"}))
			lists = false
		}
		select {
		case <-changed:
		case <-bookmark.C:
			if q.Get("allowWatchBookmarks") == "true" && newest >= after {
				send(w, "BOOKMARK", a.bookmark(of, after, nil))
			}
		case <-ended:
			return
		case <-over.C:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// bookmark is an object without anything but a version, of the kind of those that are there.
func (a *Server) bookmark(of place, version int, annotations Object) []byte {
	o := Object{"metadata": Object{"resourceVersion": strconv.Itoa(version), "annotations": annotations}}
	a.Mu.Lock()
	defer a.Mu.Unlock()
	for path, c := range a.objects {
		if is := a.Objects[path]; of.has(c.place) && is["kind"] != nil {
			o["kind"], o["apiVersion"] = is["kind"], is["apiVersion"]
			break
		}
	}
	return Marshal(o)
}

// seenBy is the kind of event that a watch for these labels sends; empty if it sends none.
func (c change) seenBy(wanted labels.Selector) string {
	was, is := c.was != nil && wanted.Matches(c.was), c.is != nil && wanted.Matches(c.is)
	switch {
	case was && !is:
		return "DELETED" // as far as that watch goes
	case is && !was:
		return "ADDED"
	case is:
		return c.kind
	}
	return ""
}

// since returns the events after a version, the newest version, and a channel that is closed
// when there is more. Version zero means: begin with the present objects.
func (a *Server) since(of place, after int, from *view) (events []change, newest int, changed <-chan struct{}) {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	newest, changed = from.at, from.changed
	all := a.between(after, newest)
	if after == 0 {
		all = nil
		for _, path := range from.paths() {
			c := from.objects[path]
			c.kind, c.was = "ADDED", nil
			all = append(all, c)
		}
	}
	for _, c := range all {
		if of.has(c.place) {
			events = append(events, c)
		}
	}
	return events, newest, changed
}

// between returns the changes after a version, up to another. The caller holds Mu.
func (a *Server) between(after, last int) []change {
	index := func(version int) int {
		return sort.Search(len(a.history), func(i int) bool { return a.history[i].number > version })
	}
	if last <= after {
		return nil
	}
	return a.history[index(after):index(last)]
}

// Compact ends all watches, and lets none start from a version older than now.
func (a *Server) Compact() {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	clear(a.pages)
	a.end()
	for _, f := range a.fronts { // what a cache does not show yet, it has still to get
		f.end()
	}
}

// send writes one event of a watch.
func send(w http.ResponseWriter, kind string, raw []byte) {
	_, _ = fmt.Fprintf(w, `{"type":%q,"object":%s}`+"\n", kind, raw)
	w.(http.Flusher).Flush()
}
