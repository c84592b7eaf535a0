// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package presence

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

func newRoster(client rest.Interface) *roster {
	return &roster{client: client, namespace: "ns", lock: "lock"}
}

// follow keeps what a roster reported last, until the returned function ends it.
func follow(t *testing.T, r *roster, notOlder uint64) (latest func() []string, end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var names []string
	over := make(chan error, 1)
	go func() {
		over <- r.follow(ctx, notOlder, func(all []Object, _ uint64) {
			names = nil
			for _, p := range peers(all) {
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
		r := newRoster(client)
		latest, end := follow(t, r, a.Number)
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
		latest, end = follow(t, r, 0)
		check("when the next watch goes on", "b_1", "c_1")
		_ = end()
		if n := slices.Index(*sent, "list"); n != 0 || slices.Contains((*sent)[1:], "list") {
			t.Errorf("sent %q, want one list, at first", *sent)
		}
	})
}

// TestARosterListsOutOfTheCache: the kind of request decides its cost.
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
		latest, end := follow(t, newRoster(client), 7)
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

// TestARosterThatMissedSomethingListsAgain, and forgets who has gone meanwhile.
func TestARosterThatMissedSomethingListsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client, sent := newServer(t)
		a := ensured(t, client, objectOf("a"))
		r := newRoster(client)
		server.Before = func(verb, _ string) (int, apitest.Object) {
			*sent = append(*sent, verb)
			if verb == "watch" {
				return http.StatusGone, apitest.Status(http.StatusGone, "Expired", "too old resource version", "", "")
			}
			return 0, nil
		}
		for _, want := range []int{1, 0} {
			known := -1
			err := r.follow(t.Context(), 0, func(those []Object, _ uint64) { known = len(those) })
			if !errors.Is(err, locks.ErrVersionExpired) || known != want {
				t.Errorf("it ended with %v, and knew %d, want %d", err, known, want)
			}
			server.Delete(all + "/" + a.Name)
		}
		if want := []string{"list", "watch", "list", "watch"}; !slices.Equal((*sent)[2:], want) {
			t.Errorf("sent %q, want %q", (*sent)[2:], want)
		}
	})
}

// TestGarbageIsNobody: a Lease with the label may contain anything.
func TestGarbageIsNobody(t *testing.T) {
	long := strings.Repeat("x", record.MaxText+1)
	said := locks.Candidate{Identity: "a_1", Zone: "z1", Node: "n1", Pod: locks.Pod{Name: "a", UID: "uid-a"}}
	good, alone := []locks.Peer{{Candidate: said}}, []locks.Peer{{Candidate: locks.Candidate{Identity: "a"}}}
	ill := []locks.Peer{{Candidate: said, Unhealthy: "no disk"}}
	noNode := []locks.Peer{{Candidate: locks.Candidate{Identity: "a_1", Zone: "z1", Pod: said.Pod}}}
	bare := []locks.Peer{{Candidate: locks.Candidate{Identity: "a_1", Pod: said.Pod}}}
	type lease = coordinationv1.Lease
	pod, noPod := objectOf("a"), podless("a")
	for name, tc := range map[string]struct {
		of     Object
		change func(*lease)
		want   []locks.Peer
	}{
		"as it was made":  {pod, func(*lease) {}, good},
		"unhealthy":       {pod, func(l *lease) { l.Annotations[annotationHealth] = "no disk" }, ill},
		"a node too long": {pod, func(l *lease) { l.Annotations[record.AnnotationNode] = long }, noNode},
		"no annotations":  {pod, func(l *lease) { l.Annotations = nil }, bare},
		"a long identity": {pod, func(l *lease) { l.Spec.HolderIdentity = &long }, nil},
		"no identity":     {pod, func(l *lease) { l.Spec.HolderIdentity = nil }, nil},
		"no owner":        {pod, func(l *lease) { l.OwnerReferences = nil }, nil},
		"another name":    {pod, func(l *lease) { l.Name = "mine" }, nil},
		"another lock's":  {pod, func(l *lease) { l.Labels[Label] = "another" }, nil},

		"renewed":                          {noPod, func(*lease) {}, alone},
		"never renewed":                    {noPod, func(l *lease) { l.Spec.RenewTime = nil }, nil},
		"renewed in 1970":                  {noPod, func(l *lease) { l.Spec.RenewTime = &metav1.MicroTime{Time: time.Unix(0, 0)} }, nil},
		"renewed by nobody":                {noPod, func(l *lease) { l.Spec.HolderIdentity = nil }, nil},
		"renewed by another":               {noPod, func(l *lease) { *l.Spec.HolderIdentity = "b" }, nil},
		"renewed, of a pod":                {noPod, func(l *lease) { l.OwnerReferences = pod.written(l).OwnerReferences }, nil},
		"renewed, of two":                  {noPod, func(l *lease) { l.OwnerReferences = make([]metav1.OwnerReference, 2) }, nil},
		"renewed, under the name of a pod": {noPod, func(l *lease) { l.Name = pod.name() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			lease := tc.of.written(&coordinationv1.Lease{})
			lease.Name, lease.UID = tc.of.name(), "u"
			tc.change(lease)
			if got := peers(Among([]coordinationv1.Lease{*lease, *lease}, "lock")); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("it tells of %+v, want %+v", got, tc.want)
			}
		})
	}
}
