// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package presence

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/apitest"
)

// leaseOf is a presence as the server keeps it, made at a second.
func leaseOf(o Object, created int64) apitest.Object {
	lease := o.written(&coordinationv1.Lease{})
	lease.Name, lease.Namespace, lease.UID = o.name(), "ns", types.UID("of "+o.Pod.Name)
	made := apitest.Clone(lease)
	made["metadata"].(apitest.Object)["creationTimestamp"] = fmt.Sprintf("2026-01-01T00:%02d:%02dZ", created/60, created%60)
	return made
}

// TestACopiedIdentityChangesNothingForItsOwner: anybody who may create a Lease can copy an
// identity, whatever they say about it, and whatever pod they name.
func TestACopiedIdentityChangesNothingForItsOwner(t *testing.T) {
	owner := objectOf("op-b")
	owner.Zone, owner.Unhealthy = "zb", ""
	want := Peers([]Object{owner}, "", 1)
	for name, pod := range map[string]Pod{
		"a pod that sorts before":          {Name: "aaa", UID: "x"},
		"a pod that sorts after":           {Name: "zzz", UID: "x"},
		"a pod of the same name":           {Name: "op-b", UID: "0"},
		"another pod of the same name":     {Name: "op-b", UID: "another"},
		"a pod that has the name in parts": {Name: "op", UID: "x"},
	} {
		for _, says := range []Object{
			{Unhealthy: "ill", Zone: "zb", Node: owner.Node}, {Zone: "za"}, {}, {Unhealthy: "ill", Zone: "za", Node: "n9"},
		} {
			for _, custom := range []bool{false, true} {
				owner, copied, want := owner, says, want
				copied.Lock, copied.Pod, copied.Identity = owner.Lock, pod, owner.Identity
				if custom { // an identity that names no pod
					owner.Identity, copied.Identity = "me", "me"
					want = Peers([]Object{owner}, "", 1)
				}
				copied.Name, owner.Name = copied.name(), owner.name()
				owner.Created, copied.Created = 100, 101
				for _, all := range [][]Object{{owner, copied}, {copied, owner}} {
					if got := Peers(all, "", 2); len(got) != 1 || got[0] != want[0] {
						t.Errorf("%s that says %+v: %+v, want %+v", name, says, got, want)
					}
				}
				copied.Created = 1 // made in advance: only the owner itself knows
				for _, all := range [][]Object{{owner, copied}, {copied, owner}} {
					if got := Peers(all, owner.Name, 2); len(got) != 1 || got[0] != want[0] {
						t.Errorf("to its owner %s that says %+v: %+v, want %+v", name, says, got, want)
					}
					if got := Peers(all, "", 2); len(got) != 1 || got[0].Unhealthy != "" {
						t.Errorf("%s that says %+v in advance: %+v", name, says, got)
					}
				}
			}
		}
	}
}

// TestACopyWithoutAPodComesAfterItsOwner: its name is made of the identity, which proves nothing.
func TestACopyWithoutAPodComesAfterItsOwner(t *testing.T) {
	for _, identity := range []string{"me", "_me", "a_1"} {
		owner, copied := objectOf("a"), podless(identity)
		owner.Identity, copied.Zone = identity, "elsewhere"
		owner.Name, copied.Name, owner.Created = owner.name(), copied.name(), 100
		for _, copied.Created = range []int64{99, 101} {
			for _, all := range [][]Object{{owner, copied}, {copied, owner}} {
				if got := Peers(all, "", 2); len(got) != 1 || got[0].Zone != owner.Zone || got[0].Pod.Name != "a" {
					t.Errorf("%s is %+v", identity, got)
				}
			}
		}
	}
}

// TestACandidateIsUnhealthyIfItSaysSo: an identity is unhealthy if all its presences say so, and an
// own one always counts.
func TestACandidateIsUnhealthyIfItSaysSo(t *testing.T) {
	ill, well := objectOf("a"), objectOf("a")
	ill.Unhealthy, ill.Name = "ill", "lock.a.1"
	well.Unhealthy, well.Name = "", "lock.a.2"
	for want, all := range map[string][]Object{"ill": {ill, ill}, "": {ill, well}} {
		if got := Peers(all, "", 2); got[0].Unhealthy != want {
			t.Errorf("%+v", got)
		}
	}
	if got := Peers([]Object{well, ill}, ill.Name, 2); got[0].Unhealthy != "ill" {
		t.Errorf("to itself: %+v", got)
	}
}

// TestARosterKeepsThoseThatWereThereFirst: whoever makes up thousands comes after the candidates,
// whatever names they choose.
func TestARosterKeepsThoseThatWereThereFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client, _ := newServer(t)
		put := func(o Object, created int64) {
			server.Put(all+"/"+o.name(), leaseOf(o, created))
		}
		for _, name := range []string{"op-x", "op-y", "zz"} {
			put(objectOf(name), 1)
		}
		for i := range 3 * most {
			put(objectOf(fmt.Sprintf("a%04d", i)), 2)
		}
		own := objectOf("young")
		put(own, 3)
		r := NewRoster(client, "ns", "lock", own.name())
		if err := r.list(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"op-x", "op-y", "zz", "young"} {
			if _, known := r.all[objectOf(name).name()]; !known {
				t.Errorf("%s is not known", name)
			}
		}
		if len(r.all) != most+1 || !r.dropped {
			t.Errorf("%d are known", len(r.all))
		}
	})
}

// TestAPresenceOfAMegabyteIsNoNews to a roster, which does not even decode it.
func TestAPresenceOfAMegabyteIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client, _ := newServer(t)
		latest, end := follow(t, NewRoster(client, "ns", "lock", ""), 0)
		long := objectOf("long")
		long.Identity = strings.Repeat("x", 1_450_000)
		server.Put(all+"/"+long.name(), leaseOf(long, 1))
		ensured(t, client, objectOf("a"))
		if got := latest(); len(got) != 1 || got[0] != "a_1" {
			t.Errorf("it tells of %.100q", got)
		}
		if err := end(); err != nil && t.Context().Err() == nil && !strings.Contains(err.Error(), "cancel") {
			t.Error(err)
		}
		latest, end = follow(t, NewRoster(client, "ns", "lock", ""), 0)
		if got := latest(); len(got) != 1 {
			t.Errorf("a list tells of %.100q", got)
		}
		_ = end()
	})
}

// TestNobodyWaitsForACrowdThatCameLater: more candidates than a program has are made up, and who
// was there first does not wait for them. They may still be named as successors.
func TestNobodyWaitsForACrowdThatCameLater(t *testing.T) {
	named := func(name string, created int64) Object {
		o := objectOf(name)
		o.Name, o.Created = o.name(), created
		return o
	}
	own, other, late := named("own", 7), named("other", 7), named("late", 9)
	trusts := func(all []Object) (identities []string) {
		for _, p := range Peers(all, own.Name, len(all)) {
			if !p.Doubtful {
				identities = append(identities, p.Identity)
			}
		}
		return identities
	}
	few := []Object{own, other, late}
	if got := trusts(few); len(got) != 3 {
		t.Errorf("of few it trusts %q", got)
	}
	crowd := func(created int64) []Object {
		all := slices.Clone(few)
		for i := range most {
			all = append(all, named(fmt.Sprintf("a%04d", i), created))
		}
		return all
	}
	if got := trusts(crowd(8)); !slices.Equal(got, []string{"own_1", "other_1"}) {
		t.Errorf("of a crowd that came later it trusts %q", got)
	}
	if got := trusts(crowd(6)); len(got) != 0 {
		t.Errorf("of a crowd that came before it trusts %q", got)
	}
	if n := len(Peers(crowd(8), own.Name, most+3)); n != most+3 {
		t.Errorf("it knows %d", n)
	}
}
