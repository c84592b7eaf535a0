// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/ownerref"
)

var (
	now = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	key = types.NamespacedName{Namespace: "ns", Name: "op"}
)

// heldBy returns a Lease that its holder, a zonelect candidate, has just renewed.
func heldBy(holder string) *coordinationv1.Lease {
	seconds := int32(15)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Annotations: record.WriteStage(map[string]string{
			record.AnnotationHolder: holder, record.AnnotationZone: "za", record.AnnotationToken: "7",
			record.AnnotationLegacy: "annotation/configmaps/op",
		}, record.Stage{Phase: record.PhaseDual, Step: 1})},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &metav1.MicroTime{Time: now},
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
		pod := presence.Pod{Name: name, UID: types.UID("uid-" + name)}
		said := presence.Object{Lock: key.Name, Pod: pod, Identity: name, Zone: "za", Mode: "auto"}
		confirmed := func(context.Context) error { return nil }
		if _, err := presence.Ensure(t.Context(), r.Coordination, key.Namespace, said, nil, confirmed); err != nil {
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
	err = r.Pods(t.Context(), key.Namespace, all)
	there, gone := all[0].PodState == inspect.NotReady && all[0].Exists, all[1].PodState == inspect.Gone && !all[1].Exists
	if err != nil || !there || !gone {
		t.Errorf("got %+v, %v", all, err)
	}
}

// TestACandidateInNoPodIsReadyAsLongAsItRenewsItsPresence, by the clock of the reader. It may exist as long
// as its presence: no clock proves more.
func TestACandidateInNoPodIsReadyAsLongAsItRenewsItsPresence(t *testing.T) {
	r, _ := reader(t, "a")
	for identity, minutes := range map[string]int{"late": 6, "there": 4, "early": -4, "in the future": -60} {
		renewed := time.Now().Add(-time.Duration(minutes) * time.Minute).Unix()
		said := presence.Object{Lock: key.Name, Identity: identity, Mode: "auto", Renewed: renewed}
		if _, err := presence.Ensure(t.Context(), r.Coordination, key.Namespace, said, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	all, err := r.Candidates(t.Context(), inspect.Election{NamespacedName: key})
	if err != nil || len(all) != 5 {
		t.Fatalf("the candidates: %+v, %v", all, err)
	}
	if err := r.Pods(t.Context(), key.Namespace, all); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		ready := c.Identity == "there" || c.Identity == "early"
		podless := c.Identity != "a"
		gone := !ready && podless
		if !c.Exists || (c.PodState == inspect.Gone) != gone || c.InNoPod() != podless || c.Name() != c.Identity {
			t.Errorf("%+v", c)
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

// TestWhatAnybodyWroteAboutOtherLeasesDoesNoHarm: a lock may name a Group that no
// Lease can have.
func TestWhatAnybodyWroteAboutOtherLeasesDoesNoHarm(t *testing.T) {
	for _, name := range []string{"../../x", "a,b", "UPPER", strings.Repeat("x", 300), "op", "absent"} {
		r, server := reader(t, "a")
		lease := heldBy("a")
		lease.Annotations[record.AnnotationShared] = name
		server.Put("/apis/coordination.k8s.io/v1/namespaces/ns/leases/op", lease)
		e, err := r.Election(t.Context(), key)
		if err != nil || len(e.Candidates) != 1 {
			t.Errorf("%.20s: %v, candidates %+v", name, err, e.Candidates)
			continue
		}
		if s := e.Status(now); s.State != inspect.Held || s.Leader.LeaseDurationSeconds != 15 {
			t.Errorf("%.20s: it is %s, leader %+v", name, s.State, s.Leader)
		}
		all, err := r.Elections(t.Context(), "ns")
		if err != nil || len(all) != 1 || len(all[0].Candidates) != 1 {
			t.Errorf("%.20s: %v, in the list %+v", name, err, all)
		}
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
	r, server := reader(t)
	server.Put("/api/v1/namespaces/ns/configmaps/op", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "op", Annotations: map[string]string{
			resourcelock.LeaderElectionRecordAnnotationKey: `{"holderIdentity":"jm-1","leaseDuration":60.0}`,
		},
	}})
	e, err := r.Election(t.Context(), key)
	if l := e.Legacy; err != nil || l.Kind != ownerref.Foreign || l.Holder != "" || !strings.Contains(l.Why, `"leaseDuration"`) {
		t.Errorf("read %+v, %v", l, err)
	}
}

// TestALeaseThatNobodyWroteDownIsNotKnown: a release, and client-go's way to empty a record, leave a
// second, which is not how long the others wait.
func TestALeaseThatNobodyWroteDownIsNotKnown(t *testing.T) {
	for name, tc := range map[string]struct {
		holder  string
		seconds int32
		want    time.Duration
	}{
		"held":                      {"a", 15, 15 * time.Second},
		"held for a second":         {"a", 1, time.Second},
		"held, for nobody knows":    {"a", 0, 0},
		"released":                  {"", 1, 0},
		"emptied, and otherwise as": {"", 15, 15 * time.Second},
	} {
		lease := heldBy("a")
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &tc.holder, &tc.seconds
		if got := (inspect.Election{Lease: lease}).Lasts(); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// TestAHolderThatHasNotRenewedForALeaseIsSilent. One that says a time in the future is not.
func TestAHolderThatHasNotRenewedForALeaseIsSilent(t *testing.T) {
	for name, tc := range map[string]struct {
		ago  time.Duration
		want bool
	}{
		"renewed":       {time.Second, false},
		"a lease ago":   {16 * time.Second, true},
		"in the future": {-time.Hour, false},
	} {
		lease := heldBy("a")
		lease.Spec.RenewTime = &metav1.MicroTime{Time: now.Add(-tc.ago)}
		if got := (inspect.Election{Lease: lease}).Silent(now); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
