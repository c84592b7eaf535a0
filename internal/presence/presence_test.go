// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package presence

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks"
)

const all = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"

// newServer returns a server, a client of it, and the requests sent.
func newServer(t *testing.T) (*apitest.Server, rest.Interface, *[]string) {
	t.Helper()
	server, sent := apitest.NewServer(), &[]string{}
	server.Before = func(verb, path string) (int, apitest.Object) {
		*sent = append(*sent, verb)
		return 0, nil
	}
	return server, apitest.Wire(t, server, coordinationv1.SchemeGroupVersion), sent
}

func objectOf(pod string) Object {
	return Object{
		Lock: "lock", Pod: Pod{pod, types.UID("uid-" + pod)},
		Identity: pod + "_1", Zone: "z1", Node: "n1", Version: "v2", Mode: "auto", Waiting: "the world",
	}
}

// podless is the presence of a candidate without a pod.
func podless(identity string) Object {
	return Object{Lock: "lock", Identity: identity, Mode: Alone, Renewed: 1}
}

func ensured(t *testing.T, client rest.Interface, o Object) Object {
	t.Helper()
	made, err := Ensure(t.Context(), client, "ns", o, nil, confirmed)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func listed(t *testing.T, client rest.Interface) []Object {
	t.Helper()
	objects, err := List(t.Context(), client, "ns", "lock")
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func TestAPresenceBelongsToItsPodAndSaysWhoItIs(t *testing.T) {
	server, client, _ := newServer(t)
	a, b := ensured(t, client, objectOf("a")), ensured(t, client, objectOf("b"))
	if a.UID == "" || a.UID == b.UID || a.Name == b.Name {
		t.Fatalf("made %+v and %+v", a, b)
	}
	if got := listed(t, client); !reflect.DeepEqual(got, []Object{a, b}) {
		t.Errorf("listed %+v", got)
	}
	o := server.Objects[all+"/"+a.Name]
	owner := o["metadata"].(apitest.Object)["ownerReferences"]
	want := []any{apitest.Object{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "uid-a"}}
	if !reflect.DeepEqual(owner, want) {
		t.Errorf("its owners are %v, want %v", owner, want)
	}
	if holder := o["spec"].(apitest.Object)["holderIdentity"]; holder != "a_1" {
		t.Errorf("people see %v", holder)
	}
}

// TestAPresenceIsWrittenOnChangeOnly: an object without renewals costs nothing.
func TestAPresenceIsWrittenOnChangeOnly(t *testing.T) {
	_, client, sent := newServer(t)
	o := objectOf("a")
	first := ensured(t, client, o)
	if again := ensured(t, client, o); again != first {
		t.Errorf("made %+v, then %+v", first, again)
	}
	o.Waiting = ""
	if changed := ensured(t, client, o); changed.UID != first.UID || listed(t, client)[0].Waiting != "" {
		t.Errorf("changed to %+v", changed)
	}
	if want := []string{"get", "create", "get", "get", "update", "list"}; !slices.Equal(*sent, want) {
		t.Errorf("sent %v, want %v", *sent, want)
	}
}

func TestADeletedPresenceIsMadeAnew(t *testing.T) {
	server, client, _ := newServer(t)
	first := ensured(t, client, objectOf("a"))
	server.Delete(all + "/" + first.Name)
	if again := ensured(t, client, objectOf("a")); again.UID == first.UID || again.Name != first.Name {
		t.Errorf("made %+v, then %+v", first, again)
	}
}

// TestASuccessorOfTheSameNameHasItsOwn: a StatefulSet's pod has its predecessor's name, and
// the garbage collector may be late.
func TestASuccessorOfTheSameNameHasItsOwn(t *testing.T) {
	_, client, _ := newServer(t)
	first := objectOf("a")
	second := first
	second.Pod.UID = "another"
	if a, b := ensured(t, client, first), ensured(t, client, second); a.Name == b.Name || a.UID == b.UID {
		t.Errorf("both have %s", a.Name)
	}
}

func TestWhatBelongsToAnotherIsLeftAlone(t *testing.T) {
	pod := func(uid string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "a", UID: types.UID(uid)}
	}
	for name, owners := range map[string][]metav1.OwnerReference{
		"another pod of that name": {pod("another")},
		"nobody":                   nil,
		"two":                      {pod("uid-a"), pod("another")},
		"another kind":             {{APIVersion: "v1", Kind: "Node", Name: "a", UID: "uid-a"}},
		"another API":              {{APIVersion: "example.com/v1", Kind: "Pod", Name: "a", UID: "uid-a"}},
	} {
		t.Run(name, func(t *testing.T) {
			server, client, sent := newServer(t)
			lease := objectOf("a").written(&coordinationv1.Lease{})
			lease.Name, lease.UID, lease.OwnerReferences = objectOf("a").name(), "u", owners
			server.Put(all+"/"+lease.Name, lease)
			if _, err := Ensure(t.Context(), client, "ns", objectOf("a"), nil, confirmed); err == nil || !strings.Contains(err.Error(), "remove it") {
				t.Errorf("got %v", err)
			}
			if !slices.Equal(*sent, []string{"get"}) {
				t.Errorf("sent %v", *sent)
			}
			for _, o := range listed(t, client) {
				if o.Pod.UID != "another" {
					t.Errorf("it counts as a presence: %+v", o)
				}
			}
		})
	}
}

// TestWhatBelongsToAnotherIsLeftAloneByACandidateWithoutAPod, and what was renewed before is renewed.
func TestWhatBelongsToAnotherIsLeftAloneByACandidateWithoutAPod(t *testing.T) {
	own := podless("a")
	for name, change := range map[string]func(*coordinationv1.Lease){
		"as it was":     func(*coordinationv1.Lease) {},
		"never renewed": func(l *coordinationv1.Lease) { l.Spec.RenewTime = nil },
		"another's":     func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new(string) },
		"a pod's": func(l *coordinationv1.Lease) {
			l.OwnerReferences = objectOf("a").written(&coordinationv1.Lease{}).OwnerReferences
		},
		"of another owner": func(l *coordinationv1.Lease) {
			l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, client, _ := newServer(t)
			lease := own.written(&coordinationv1.Lease{})
			lease.Name, lease.UID = own.name(), "u"
			change(lease)
			server.Put(all+"/"+lease.Name, lease)
			kept := name == "as it was" || name == "never renewed"
			later := own
			later.Renewed++
			_, err := Ensure(t.Context(), client, "ns", later, nil, nil)
			if kept && err != nil || !kept && (err == nil || !strings.Contains(err.Error(), "remove it")) {
				t.Errorf("got %v", err)
			}
			if there := listed(t, client); kept && (len(there) != 1 || there[0].Renewed != later.Renewed) {
				t.Errorf("there are %+v", there)
			}
		})
	}
}

func TestWhatOthersPutOnAPresenceIsKept(t *testing.T) {
	server, client, _ := newServer(t)
	o := ensured(t, client, objectOf("a"))
	server.Change(all+"/"+o.Name, func(lease apitest.Object) {
		meta := lease["metadata"].(apitest.Object)
		meta["annotations"].(apitest.Object)["theirs"] = "kept"
		meta["labels"] = apitest.Object{"team": "a"}
	})
	if len(listed(t, client)) != 0 {
		t.Fatal("without its label it is found")
	}
	ensured(t, client, objectOf("a"))
	meta := server.Objects[all+"/"+o.Name]["metadata"].(apitest.Object)
	if meta["annotations"].(apitest.Object)["theirs"] != "kept" || meta["labels"].(apitest.Object)["team"] != "a" || len(listed(t, client)) != 1 {
		t.Errorf("now %v", meta)
	}
}

// TestARaceIsRunAgain: another client changes, creates or deletes the object between the read
// and the write.
func TestARaceIsRunAgain(t *testing.T) {
	path := all + "/" + objectOf("a").name()
	label := func(s *apitest.Server, n int) {
		if s.Objects[path] != nil {
			s.Objects[path]["metadata"].(apitest.Object)["resourceVersion"] = fmt.Sprint(n)
		}
	}
	for name, tc := range map[string]struct {
		races int
		fails bool
	}{"once": {1, false}, "twice": {2, false}, "for ever": {99, true}} {
		t.Run(name, func(t *testing.T) {
			server, client, _ := newServer(t)
			ensured(t, client, objectOf("a"))
			races := 0
			server.Before = func(verb, _ string) (int, apitest.Object) {
				if verb == "update" && races < tc.races {
					races++
					label(server, races)
				}
				return 0, nil
			}
			changed := objectOf("a")
			changed.Waiting = "nothing"
			_, err := Ensure(t.Context(), client, "ns", changed, nil, confirmed)
			if errors.Is(err, locks.ErrConflict) != tc.fails || !tc.fails && err != nil || races > attempts {
				t.Errorf("after %d races: %v", races, err)
			}
		})
	}
}

func TestNamesFit(t *testing.T) {
	long := strings.Repeat("a", 250)
	names := map[string]bool{}
	for _, tc := range []struct{ lock, pod, uid string }{
		{"lock", "pod", "1"}, {"lock", "pod", "2"}, {"lock.pod", "x", "1"}, {"lock", "pod.x", "1"},
		{long, long, "1"}, {long, long, "2"}, {long + "b", long, "1"}, {strings.Repeat("a", 241) + "-b", "pod", "1"}, {strings.Repeat("a", 241) + ".b", "pod", "1"},
	} {
		name := Object{Lock: tc.lock, Pod: Pod{tc.pod, types.UID(tc.uid)}}.name()
		if faults := validation.IsDNS1123Subdomain(name); len(faults) > 0 {
			t.Errorf("%q: %v", name, faults)
		}
		if faults := validation.IsValidLabelValue(labelOf(tc.lock)); len(faults) > 0 {
			t.Errorf("label %q: %v", labelOf(tc.lock), faults)
		}
		names[name] = true
	}
	if len(names) != 9 {
		t.Errorf("two have one name: %v", names)
	}
	if labelOf(long) == labelOf(long+"b") {
		t.Error("two locks have one label")
	}
	if got := (Object{Lock: "lock", Pod: Pod{"pod", "1"}}).name(); !strings.HasPrefix(got, "lock.pod.") {
		t.Errorf("people cannot read %q", got)
	}
}

func TestAMissingPermissionIsNamed(t *testing.T) {
	for verb, changed := range map[string]bool{"get": false, "create": false, "update": true} {
		server, client, _ := newServer(t)
		o := objectOf("a")
		if changed {
			ensured(t, client, o)
			o.Mode = "dual"
		}
		server.Before = func(v, path string) (int, apitest.Object) {
			if v == verb {
				return apitest.Forbidden(v, path)
			}
			return 0, nil
		}
		_, err := Ensure(t.Context(), client, "ns", o, nil, confirmed)
		if want := fmt.Sprintf(`needs verb %q on leases.coordination.k8s.io in namespace "ns"`, verb); err == nil || !errors.Is(err, locks.ErrForbidden) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", verb, err)
		}
	}
	server, client, _ := newServer(t)
	server.Before = apitest.Forbidden
	if _, err := List(t.Context(), client, "ns", "lock"); !errors.Is(err, locks.ErrForbidden) || !strings.Contains(err.Error(), `needs verb "list" on leases`) {
		t.Errorf("list: %v", err)
	}
}

func TestAPresenceNeedsAPodByUID(t *testing.T) {
	_, client, sent := newServer(t)
	for _, o := range []Object{{}, {Lock: "lock", Pod: Pod{Name: "a"}}, {Lock: "lock", Pod: Pod{UID: "u"}}, {Pod: Pod{"a", "u"}}} {
		if _, err := Ensure(t.Context(), client, "ns", o, nil, confirmed); err == nil || len(*sent) > 0 {
			t.Errorf("%+v: %v, sent %v", o, err, *sent)
		}
	}
}

// confirmed is for a pod that the API server knows.
func confirmed(context.Context) error { return nil }
