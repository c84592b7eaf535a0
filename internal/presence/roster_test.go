// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package presence

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
)

// follow keeps what a roster tells last, until the returned function ends it.
func follow(t *testing.T, r *Roster, notOlder uint64) (latest func() []string, end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var names []string
	over := make(chan error, 1)
	go func() {
		over <- r.Follow(ctx, notOlder, func(all []Object, _ uint64) {
			names = nil
			for _, p := range Peers(all) {
				names = append(names, p.Identity)
			}
		})
	}()
	return func() []string { synctest.Wait(); return names }, func() error { cancel(); return <-over }
}

func TestARosterTellsWhoComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client, sent := newServer(t)
		a := ensured(t, client, objectOf("a"))
		elsewhere := objectOf("x")
		elsewhere.Lock = "another"
		ensured(t, client, elsewhere)
		*sent = nil
		roster := NewRoster(client, "ns", "lock")
		latest, end := follow(t, roster, a.Number)
		check := func(when string, want ...string) {
			t.Helper()
			if got := latest(); !slices.Equal(got, want) {
				t.Errorf("%s: it tells of %q, want %q", when, got, want)
			}
		}
		check("at first", "a_1")
		ensured(t, client, objectOf("b"))
		check("when one comes", "a_1", "b_1")
		server.Delete(all + "/" + a.Name)
		check("when one goes", "b_1")
		_ = end()
		ensured(t, client, objectOf("c"))
		latest, end = follow(t, roster, 0)
		check("when the next watch goes on", "b_1", "c_1")
		_ = end()
		if n := slices.Index(*sent, "list"); n != 0 || slices.Contains((*sent)[1:], "list") {
			t.Errorf("sent %q, want one list, at first", *sent)
		}
	})
}

// TestARosterListsOutOfTheCache: what it asks for is what it costs.
func TestARosterListsOutOfTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.NewServer()
		var asked []string
		client := apitest.Wire(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			q.Del("timeoutSeconds")
			asked = append(asked, q.Encode())
			server.ServeHTTP(w, r)
		}), coordinationv1.SchemeGroupVersion)
		latest, end := follow(t, NewRoster(client, "ns", "lock"), 7)
		latest()
		_ = end()
		if want := []string{
			"labelSelector=zonelect.dev%2Flock%3Dlock&resourceVersion=7",
			"allowWatchBookmarks=true&labelSelector=zonelect.dev%2Flock%3Dlock&resourceVersion=100&watch=true",
		}; !slices.Equal(asked, want) {
			t.Errorf("asked for %q, want %q", asked, want)
		}
	})
}

func TestARosterThatMissedSomethingListsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client, sent := newServer(t)
		ensured(t, client, objectOf("a"))
		roster := NewRoster(client, "ns", "lock")
		server.Before = func(verb, _ string) (int, apitest.Object) {
			*sent = append(*sent, verb)
			if verb == "watch" {
				return http.StatusGone, apitest.Status(http.StatusGone, "Expired", "too old resource version", "", "")
			}
			return 0, nil
		}
		for range 2 {
			if err := roster.Follow(t.Context(), 0, func([]Object, uint64) {}); !errors.Is(err, election.ErrVersionExpired) {
				t.Errorf("it ended with %v", err)
			}
		}
		if want := []string{"list", "watch", "list", "watch"}; !slices.Equal((*sent)[2:], want) {
			t.Errorf("sent %q, want %q", (*sent)[2:], want)
		}
	})
}

func TestAMissingPermissionToFollowIsNamed(t *testing.T) {
	for _, verb := range []string{"list", "watch"} {
		server, client, _ := newServer(t)
		server.Before = func(v, path string) (int, apitest.Object) {
			if v == verb {
				return apitest.Forbidden(v, path)
			}
			return 0, nil
		}
		err := NewRoster(client, "ns", "lock").Follow(t.Context(), 0, func([]Object, uint64) {})
		if !errors.Is(err, election.ErrForbidden) || !strings.Contains(err.Error(), `needs verb "`+verb+`" on leases.coordination.k8s.io in namespace "ns"`) {
			t.Errorf("%s: %v", verb, err)
		}
	}
}

// TestGarbageIsNobody: what stands on a Lease with the label may be anything.
func TestGarbageIsNobody(t *testing.T) {
	long := strings.Repeat("x", record.MaxText+1)
	made := func(change func(*coordinationv1.Lease)) coordinationv1.Lease {
		lease := objectOf("a").written(&coordinationv1.Lease{})
		lease.Name, lease.UID = nameOf("lock", objectOf("a").Pod), "u"
		change(lease)
		return *lease
	}
	good := election.Peer{Candidate: election.Candidate{Identity: "a_1", Zone: "z1", Node: "n1", Pod: "a/uid-a"}}
	zoneless, ill := good, good
	zoneless.Zone, ill.Unhealthy = "", "no disk"
	for name, tc := range map[string]struct {
		change func(*coordinationv1.Lease)
		want   []election.Peer
	}{
		"as it was made":           {func(*coordinationv1.Lease) {}, []election.Peer{good}},
		"unhealthy":                {func(l *coordinationv1.Lease) { l.Annotations[annotationHealth] = "no disk" }, []election.Peer{ill}},
		"a zone of kilobytes":      {func(l *coordinationv1.Lease) { l.Annotations[record.AnnotationZone] = long }, []election.Peer{zoneless}},
		"an identity of kilobytes": {func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = &long }, nil},
		"no identity":              {func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil }, nil},
		"no annotations":           {func(l *coordinationv1.Lease) { l.Annotations = nil }, []election.Peer{{Candidate: election.Candidate{Identity: "a_1", Pod: "a/uid-a"}}}},
		"no owner":                 {func(l *coordinationv1.Lease) { l.OwnerReferences = nil }, nil},
		"a name of its own":        {func(l *coordinationv1.Lease) { l.Name = "mine" }, nil},
		"another lock's":           {func(l *coordinationv1.Lease) { l.Labels[Label] = "another" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			lease := made(tc.change)
			if got := Peers(Among([]coordinationv1.Lease{lease, lease}, "lock")); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("it tells of %+v, want %+v", got, tc.want)
			}
		})
	}
}

// TestARosterKeepsSoMany, whoever makes them up, and goes on hearing of those.
func TestARosterKeepsSoMany(t *testing.T) {
	r := NewRoster(nil, "ns", "lock")
	r.all = map[string]Object{}
	tell := func(kind watch.EventType, i int, zone string) bool {
		pod := Pod{Name: fmt.Sprintf("op-%d", i), UID: types.UID(fmt.Sprint(i))}
		lease := Object{Lock: "lock", Pod: pod, Identity: pod.Name, Zone: zone}.written(&coordinationv1.Lease{})
		lease.Name = nameOf("lock", pod)
		return r.take(rawapi.Event[*coordinationv1.Lease]{Type: kind, Object: lease})
	}
	for i := range most + 10 {
		if news := tell(watch.Added, i, "za"); news != (i < most) {
			t.Fatalf("the presence %d is news: %v", i, news)
		}
	}
	if !tell(watch.Modified, 0, "zb") || !tell(watch.Deleted, 1, "za") || !tell(watch.Added, most, "za") || len(r.all) != most {
		t.Errorf("%d are kept after changes", len(r.all))
	}
}
