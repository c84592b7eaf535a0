// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package presence

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apitest"
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
		Identity: pod + "_1", Zone: "z1", Node: "n1", Mode: "auto", Waiting: "the world",
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

func TestWhatBelongsToAnotherIsLeftAlone(t *testing.T) {
	pod := func(uid string) metav1.OwnerReference { return apitest.PodRef("a", uid) }
	other := func(api, kind string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: api, Kind: kind, Name: "a", UID: "uid-a"}
	}
	owned := func(owners ...metav1.OwnerReference) func(*coordinationv1.Lease) {
		return func(l *coordinationv1.Lease) { l.OwnerReferences = owners }
	}
	for name, tc := range map[string]struct {
		own    Object
		change func(*coordinationv1.Lease)
	}{
		"another pod of that name":       {objectOf("a"), owned(pod("another"))},
		"nobody":                         {objectOf("a"), owned()},
		"two":                            {objectOf("a"), owned(pod("uid-a"), pod("another"))},
		"another kind":                   {objectOf("a"), owned(other("v1", "Node"))},
		"another API":                    {objectOf("a"), owned(other("example.com/v1", "Pod"))},
		"without a pod, another's":       {podless("a"), func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new(string) }},
		"without a pod, a pod's":         {podless("a"), owned(pod("uid-a"))},
		"without a pod, another owner's": {podless("a"), owned(other("v1", "Node"))},
	} {
		t.Run(name, func(t *testing.T) {
			server, client, sent := newServer(t)
			lease := tc.own.written(&coordinationv1.Lease{})
			lease.Name, lease.UID = tc.own.name(), "u"
			tc.change(lease)
			server.Put(all+"/"+lease.Name, lease)
			_, err := Ensure(t.Context(), client, "ns", tc.own, nil, confirmed)
			if err == nil || !strings.Contains(err.Error(), "remove that object") {
				t.Errorf("got %v", err)
			}
			if !slices.Equal(*sent, []string{"get"}) {
				t.Errorf("sent %v", *sent)
			}
			if there := listed(t, client); len(there) > 0 {
				t.Errorf("it counts as a presence: %+v", there)
			}
		})
	}
}

// TestACandidateWithoutAPodRenewsItsPresence, also one that was never renewed.
func TestACandidateWithoutAPodRenewsItsPresence(t *testing.T) {
	for _, renewed := range []*metav1.MicroTime{nil, {Time: time.Unix(1, 0)}} {
		server, client, _ := newServer(t)
		lease := podless("a").written(&coordinationv1.Lease{})
		lease.Name, lease.UID, lease.Spec.RenewTime = podless("a").name(), "u", renewed
		server.Put(all+"/"+lease.Name, lease)
		later := podless("a")
		later.Renewed++
		ensured(t, client, later)
		if there := listed(t, client); len(there) != 1 || there[0].UID != "u" || there[0].Renewed != later.Renewed {
			t.Errorf("of one that was renewed at %v it made %+v", renewed, there)
		}
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
	theirs, team := meta["annotations"].(apitest.Object)["theirs"], meta["labels"].(apitest.Object)["team"]
	if theirs != "kept" || team != "a" || len(listed(t, client)) != 1 {
		t.Errorf("now %v", meta)
	}
}

// TestNamesFit, and differ by the pod's UID: a StatefulSet's pod has its predecessor's name, and the garbage
// collector may be late.
func TestNamesFit(t *testing.T) {
	long := strings.Repeat("a", 250)
	names := map[string]bool{}
	for _, tc := range []struct{ lock, pod, uid string }{
		{"lock", "pod", "1"}, {"lock", "pod", "2"}, {"lock.pod", "x", "1"}, {"lock", "pod.x", "1"},
		{long, long, "1"}, {long, long, "2"}, {long + "b", long, "1"}, {long[:241] + "-b", "pod", "1"}, {long[:241] + ".b", "pod", "1"},
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

// confirmed is for a pod that the API server knows.
func confirmed(context.Context) error { return nil }
