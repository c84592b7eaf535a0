// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apitest"
)

const leases = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"

// cached is a server whose cache shows lease a at version 101, and whose store has it at 103 and
// lease b at 102.
func cached(t *testing.T, f func(t *testing.T, front *apitest.Front)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := apitest.NewServer()
		front := store.NewFront()
		store.Put(leases+"/a", map[string]any{"metadata": map[string]any{"name": "a"}})
		front.Lag(apitest.Still)
		store.Put(leases+"/b", map[string]any{"metadata": map[string]any{"name": "b"}})
		store.Change(leases+"/a", func(apitest.Object) {})
		f(t, front)
	})
}

// ask returns the code of an answer and its version, and how long it took.
func ask(t *testing.T, front *apitest.Front, query string) (answer string, took time.Duration) {
	t.Helper()
	start, code := time.Now(), 0
	raw, _ := client(t, front).Get().RequestURI(leases + query).Do(t.Context()).StatusCode(&code).Raw()
	var o struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(fmt.Sprint(code, " ", o.Metadata.ResourceVersion)), time.Since(start)
}

func client(t *testing.T, front *apitest.Front) *rest.RESTClient {
	t.Helper()
	return apitest.Wire(t, front, coordinationv1.SchemeGroupVersion)
}

// TestReadsOfACacheThatStandsStill are as those of the real server.
func TestReadsOfACacheThatStandsStill(t *testing.T) {
	for query, want := range map[string]struct {
		answer string
		took   time.Duration
	}{
		"":                       {"200 103", 0},
		"/a":                     {"200 103", 0},
		"/b":                     {"200 102", 0},
		"?limit=1":               {"200 103", 0},
		"?resourceVersion=0":     {"200 101", 0},
		"/a?resourceVersion=0":   {"200 101", 0},
		"/b?resourceVersion=0":   {"404", 0},
		"?resourceVersion=101":   {"200 101", 0},
		"?resourceVersion=102":   {"504", 3 * time.Second},
		"/a?resourceVersion=103": {"504", 3 * time.Second},
	} {
		cached(t, func(t *testing.T, front *apitest.Front) {
			if answer, took := ask(t, front, query); answer != want.answer || took != want.took {
				t.Errorf("%q: %s after %v, want %s after %v", query, answer, took, want.answer, want.took)
			}
		})
	}
}

func TestAReadWaitsForAVersionThatIsOnItsWay(t *testing.T) {
	cached(t, func(t *testing.T, front *apitest.Front) {
		front.Lag(time.Second)
		if answer, took := ask(t, front, "?resourceVersion=102"); answer != "200 103" || took != time.Second {
			t.Errorf("%s after %v", answer, took)
		}
	})
	cached(t, func(t *testing.T, front *apitest.Front) {
		front.Waits = true
		if answer, took := ask(t, front, ""); answer != "200 103" || took != 3*time.Second {
			t.Errorf("a list from the store: %s after %v", answer, took)
		}
	})
}

// watch returns what a watch from a version shows in five minutes, while f happens after a
// second.
func watch(t *testing.T, front *apitest.Front, version int, f func()) (events []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	time.AfterFunc(time.Second, f)
	from := fmt.Sprintf("%s?watch=true&allowWatchBookmarks=true&timeoutSeconds=150&resourceVersion=%d", leases, version)
	stream, err := client(t, front).Get().RequestURI(from).Stream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for lines := bufio.NewScanner(stream); lines.Scan(); {
		var e struct {
			Type   string
			Object struct {
				Metadata struct{ Name, ResourceVersion string }
				Code     int
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		o := e.Object
		text := fmt.Sprint(e.Type, " ", o.Metadata.Name, " ", o.Metadata.ResourceVersion, " ", o.Code)
		events = append(events, strings.Join(strings.Fields(text), " "))
	}
	return events
}

func TestWatchesOfACacheThatStandsStill(t *testing.T) {
	for what, c := range map[string]struct {
		from int
		do   func(*apitest.Front)
		want string
	}{
		"bookmarks from memory": {101, func(*apitest.Front) {}, "BOOKMARK 101 0, BOOKMARK 101 0"},
		"all once it goes on":   {101, func(f *apitest.Front) { f.Lag(0) }, "ADDED b 102 0, MODIFIED a 103 0, BOOKMARK 103 0, BOOKMARK 103 0"},
		"a later one is silent": {102, func(*apitest.Front) {}, ""},
		"a later one comes":     {102, func(f *apitest.Front) { f.Lag(0) }, "MODIFIED a 103 0, BOOKMARK 103 0, BOOKMARK 103 0"},
		"another cache ends it": {101, func(f *apitest.Front) { f.Restart(1) }, ""},
	} {
		cached(t, func(t *testing.T, front *apitest.Front) {
			if got := strings.Join(watch(t, front, c.from, func() { c.do(front) }), ", "); got != c.want {
				t.Errorf("%s: %s, want %s", what, got, c.want)
			}
		})
	}
}

// TestACacheThatBeginsAnew has another state, which may be older than what it has shown before,
// and no history.
func TestACacheThatBeginsAnew(t *testing.T) {
	cached(t, func(t *testing.T, front *apitest.Front) {
		front.Lag(0)
		front.Restart(1)
		if answer, _ := ask(t, front, "?resourceVersion=0"); answer != "200 102" {
			t.Errorf("it shows %s", answer)
		}
		if got := watch(t, front, 101, func() {}); len(got) != 1 || got[0] != "ERROR 410" {
			t.Errorf("a watch from before shows %v", got)
		}
		if got := watch(t, front, 102, func() { front.Lag(0) }); len(got) != 3 || got[0] != "MODIFIED a 103 0" {
			t.Errorf("a watch from its version shows %v", got)
		}
	})
}
