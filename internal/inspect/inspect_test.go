// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

var (
	now = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	key = types.NamespacedName{Namespace: "ns", Name: "op"}
)

// heldBy returns a Lease that its holder, a zonelect candidate, has just renewed.
func heldBy(holder string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Annotations: record.WriteStage(map[string]string{
			record.AnnotationHolder: holder, record.AnnotationZone: "za", record.AnnotationToken: "7",
			record.AnnotationLegacy: "annotation/configmaps/op",
		}, record.Stage{Phase: record.PhaseDual, Step: 1})},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: ptr.To(int32(15)), RenewTime: &metav1.MicroTime{Time: now},
		},
	}
}

// reader reads a server in memory on which each pod has announced itself as a
// candidate for the lock.
func reader(t *testing.T, pods ...string) (inspect.Reader, *apitest.Server) {
	t.Helper()
	server := apitest.NewServer()
	r := inspect.Reader{
		Core:         apitest.Wire(t, server, corev1.SchemeGroupVersion),
		Coordination: apitest.Wire(t, server, coordinationv1.SchemeGroupVersion),
		Explain:      error.Error,
	}
	for _, name := range pods {
		server.Put("/api/v1/namespaces/ns/pods/"+name, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning},
		})
		said := presence.Object{Lock: key.Name, Pod: presence.Pod{Name: name, UID: types.UID("uid-" + name)}, Identity: name, Zone: "za", Mode: "auto"}
		if _, err := presence.Ensure(t.Context(), r.Coordination, key.Namespace, said, nil, func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	return r, server
}

// TestTheStatesOfPodsAreKnownOfAllCandidatesOrOfNone: if only half of them were known, the
// other pods would look gone.
func TestTheStatesOfPodsAreKnownOfAllCandidatesOrOfNone(t *testing.T) {
	r, server := reader(t, "a", "b")
	all, err := r.Candidates(t.Context(), inspect.Election{NamespacedName: key})
	if err != nil || len(all) != 2 {
		t.Fatalf("the candidates: %+v, %v", all, err)
	}
	server.Before = func(verb, path string) (int, apitest.Object) {
		if strings.HasSuffix(path, "/pods/b") {
			return apitest.Forbidden(verb, path)
		}
		return 0, nil
	}
	if err := r.Pods(t.Context(), key.Namespace, all); !errors.Is(err, locks.ErrForbidden) || all[0].PodState != "" || all[0].Exists {
		t.Errorf("without the right to read one: %+v, %v", all, err)
	}
	server.Before = nil
	server.Delete("/api/v1/namespaces/ns/pods/b")
	if err := r.Pods(t.Context(), key.Namespace, all); err != nil || all[0].PodState != inspect.NotReady || !all[0].Exists || all[1].PodState != inspect.Gone || all[1].Exists {
		t.Errorf("got %+v, %v", all, err)
	}
}

// TestAMigrationSeesMoreOfACandidateThanAStatusShows, in the same type.
func TestAMigrationSeesMoreOfACandidateThanAStatusShows(t *testing.T) {
	r, _ := reader(t, "a")
	e, err := r.Election(t.Context(), key)
	if err != nil || len(e.Candidates) != 1 {
		t.Fatalf("read %+v, %v", e, err)
	}
	for _, tc := range []struct {
		candidate any
		want      bool
	}{{e.Candidates[0], true}, {e.Status(now).Candidates[0], false}, {e.Candidates[0], true}} {
		text, err := json.Marshal(tc.candidate)
		if err != nil || strings.Contains(string(text), `"holds":`) != tc.want || strings.Contains(string(text), `"presence":`) != tc.want {
			t.Errorf("printed %s, %v, want them: %v", text, err, tc.want)
		}
	}
}

// TestAnIdentityOfAnyLengthIsThatOfBothLocks: the Lease's and the election record's are cut
// in the same way.
func TestAnIdentityOfAnyLengthIsThatOfBothLocks(t *testing.T) {
	r, server := reader(t)
	holder := strings.Repeat("x", 2*record.MaxText)
	said, err := json.Marshal(resourcelock.LeaderElectionRecord{HolderIdentity: holder})
	if err != nil {
		t.Fatal(err)
	}
	server.Put("/apis/coordination.k8s.io/v1/namespaces/ns/leases/op", heldBy(holder))
	server.Put("/api/v1/namespaces/ns/configmaps/op", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "op", Annotations: map[string]string{resourcelock.LeaderElectionRecordAnnotationKey: string(said)},
	}})
	e, err := r.Election(t.Context(), key)
	if err != nil || e.Legacy == nil || e.Legacy.Kind != inspect.ElectionRecord {
		t.Fatalf("read %+v, %v", e.Legacy, err)
	}
	if s := e.Status(now); s.State != inspect.Held || len(s.Notes) > 0 || s.Legacy.Holder != s.Leader.Identity {
		t.Errorf("the state is %s, with notes %q", s.State, s.Notes)
	}
}

// TestWhatAnEarlierHolderSaidIsNobodys: client-go leaves the annotations unchanged.
func TestWhatAnEarlierHolderSaidIsNobodys(t *testing.T) {
	lease := heldBy("a")
	if d, ours := inspect.DetailsOf(record.Read(lease)); !ours || d.Zone != "za" {
		t.Errorf("the holder says %+v, ours: %v", d, ours)
	}
	for _, other := range []string{"client-go", ""} {
		lease.Spec.HolderIdentity = &other
		if d, ours := inspect.DetailsOf(record.Read(lease)); ours || d != (locks.Details{}) {
			t.Errorf("%q says %+v, ours: %v", other, d, ours)
		}
	}
}

func TestCandidatesThatCannotTakeOverAreToldInOneWay(t *testing.T) {
	in := func(zones ...string) (all []inspect.Candidate) {
		for i, zone := range zones {
			all = append(all, inspect.Candidate{Identity: string(rune('a' + i)), Zone: zone})
		}
		return all
	}
	for name, tc := range map[string]struct {
		all  []inspect.Candidate
		want string
	}{
		"nobody":                {nil, ""},
		"one":                   {in(""), "only one candidate has announced itself: nobody takes over from a"},
		"one zone":              {in("za", "za"), "all 2 candidates are in zone za: nobody takes over when that zone dies"},
		"a zone is not known":   {in("za", ""), "the zone of some candidates is not known"},
		"none of them is known": {in("", ""), "the zone of some candidates is not known"},
		"two zones":             {in("za", "zb"), ""},
	} {
		var f inspect.Findings
		f.CheckSpread(tc.all)
		if got := strings.Join(slices.Concat(f.Problems, f.Warnings, f.Notes), "; "); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// TestWhatAnybodyWroteAboutOtherLeasesDoesNoHarm: a lock may name a heartbeat and a Shared that
// no Lease can have.
func TestWhatAnybodyWroteAboutOtherLeasesDoesNoHarm(t *testing.T) {
	for _, name := range []string{"../../x", "a,b", "UPPER", strings.Repeat("x", 300), "op", "absent"} {
		r, server := reader(t, "a")
		lease := heldBy("a")
		lease.Annotations[record.AnnotationShared] = name
		lease.Annotations[record.AnnotationHeartbeat] = name + " uid epoch 15"
		server.Put("/apis/coordination.k8s.io/v1/namespaces/ns/leases/op", lease)
		e, err := r.Election(t.Context(), key)
		if err != nil || len(e.Candidates) != 1 || e.Heart != nil {
			t.Errorf("%.20s: %v, candidates %+v, heartbeat %v", name, err, e.Candidates, e.Heart)
			continue
		}
		want := inspect.Stale
		if name == "op" {
			want = inspect.Held // by itself
		}
		if s := e.Status(now); s.State != want || s.Leader.LeaseDurationSeconds != 15 {
			t.Errorf("%.20s: it is %s, leader %+v", name, s.State, s.Leader)
		}
		all, err := r.Elections(t.Context(), "ns")
		if err != nil || len(all) != 1 || len(all[0].Candidates) != 1 {
			t.Errorf("%.20s: %v, in the list %+v", name, err, all)
		}
	}
}

// TestALockIsReadInFullOrNotAtAll: without its heartbeat nobody can say whether it is held.
func TestALockIsReadInFullOrNotAtAll(t *testing.T) {
	r, server := reader(t)
	lease := heldBy("a")
	lease.Annotations[record.AnnotationHeartbeat] = "heart uid epoch 15"
	server.Put("/apis/coordination.k8s.io/v1/namespaces/ns/leases/op", lease)
	server.Before = func(verb, path string) (int, apitest.Object) {
		if strings.HasSuffix(path, "/heart") {
			return apitest.Forbidden(verb, path)
		}
		return 0, nil
	}
	if e, err := r.Election(t.Context(), key); !errors.Is(err, locks.ErrForbidden) {
		t.Errorf("read %+v, %v", e, err)
	}
}

// TestALeaseWithoutADurationIsNeverCalledFree: no candidate takes it from its holder, whatever
// the clock says.
func TestALeaseWithoutADurationIsNeverCalledFree(t *testing.T) {
	r, server := reader(t)
	lease := heldBy("a")
	lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = nil, &metav1.MicroTime{Time: now.Add(-time.Hour)}
	server.Put("/apis/coordination.k8s.io/v1/namespaces/ns/leases/op", lease)
	e, err := r.Election(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if state, note := e.State(now); state != inspect.Stale || !strings.Contains(note, "no candidate takes it") {
		t.Errorf("it is %s: %q", state, note)
	}
}

// TestARecordOfAnotherLibraryIsForeign: nobody can say when its holder's lease ends.
func TestARecordOfAnotherLibraryIsForeign(t *testing.T) {
	e, found := inspect.ReadElected(record.ConfigMaps, map[string]string{
		"control-plane.alpha.kubernetes.io/leader": `{"holderIdentity":"jm-1","leaseDuration":60.000000000,"leaderTransitions":2}`,
	})
	if !found || e.Holder != "" || !strings.Contains(e.Error, `"leaseDuration"`) {
		t.Errorf("read %+v, %v", e, found)
	}
}
