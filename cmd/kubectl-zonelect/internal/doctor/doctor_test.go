// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/record"
)

var midnight = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// lockOf returns a lock that is held, with changes.
func lockOf(change func(*coordinationv1.Lease)) Lock {
	lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("a_1"), LeaseDurationSeconds: ptr.To(int32(15)), RenewTime: &metav1.MicroTime{Time: midnight},
	}}
	lease.Name, lease.Namespace, lease.ResourceVersion = "op", "ns", "7"
	lease.Annotations = map[string]string{record.AnnotationHolder: "a_1"}
	change(lease)
	return Lock{Now: midnight, Election: inspect.Election{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "op"}, Lease: lease}}
}

// TestOnlyAKnownAccountIsJudged: without the candidates' pods nothing is said of their rights.
func TestOnlyAKnownAccountIsJudged(t *testing.T) {
	l := lockOf(func(*coordinationv1.Lease) {})
	if l.ServiceAccount() != "" || checkRights(l) != nil {
		t.Errorf("an unknown account is judged: %+v", checkRights(l))
	}
	l.Candidates = []inspect.Candidate{{Identity: "a_1", ServiceAccount: "sa"}}
	l.Rights.Unknown = "forbidden"
	all := checkRights(l)
	if len(all) != 1 || all[0].Result != Note || !strings.Contains(all[0].Text, "forbidden") {
		t.Errorf("got %+v", all)
	}
}

// TestACandidateInNoPodIsWellAsLongAsItRenewsItsPresence: it has no pod to be read.
func TestACandidateInNoPodIsWellAsLongAsItRenewsItsPresence(t *testing.T) {
	for state, want := range map[string]string{"": "3 candidates in 3", inspect.Gone: "2 candidates in 2"} {
		l := lockOf(func(*coordinationv1.Lease) {})
		for _, zone := range []string{"za", "zb"} {
			l.Candidates = append(l.Candidates, inspect.Candidate{Identity: zone + "_1", Pod: zone, Zone: zone, PodState: inspect.Ready, UID: zone})
		}
		l.Candidates = append(l.Candidates, inspect.Candidate{Identity: "laptop_1", Zone: "zc", PodState: state, Presence: "laptop"})
		if all := checkCandidates(l); len(all) != 1 || !strings.Contains(all[0].Text, want+" known zones, all ready") {
			t.Errorf("%q: %+v", state, all)
		}
	}
}

// TestInAMigrationTheLegacyLockNeedsRightsToo, which depend on its kind.
func TestInAMigrationTheLegacyLockNeedsRightsToo(t *testing.T) {
	for legacy, want := range map[string]string{"configmap/old": "delete configmaps/old", "annotation/endpoints/old": "watch endpoints/old"} {
		l := lockOf(func(l *coordinationv1.Lease) {
			record.WriteStage(l.Annotations, record.Stage{Phase: record.PhaseDual, Step: 1})
			l.Annotations[record.AnnotationLegacy] = legacy
		})
		var needs []string
		for _, r := range l.Needs() {
			needs = append(needs, r.String())
		}
		if !slices.Contains(needs, want) || slices.Contains(needs, "delete endpoints/old") {
			t.Errorf("%s needs %q, want %q among them", legacy, needs, want)
		}
	}
}

// TestALeaseWithoutADurationIsAProblem: nobody takes it over.
func TestALeaseWithoutADurationIsAProblem(t *testing.T) {
	l := lockOf(func(lease *coordinationv1.Lease) { lease.Spec.LeaseDurationSeconds = nil })
	if all := checkTiming(l); len(all) != 1 || all[0].Result != Problem || !strings.Contains(all[0].Text, "no candidate takes it") {
		t.Errorf("got %+v", all)
	}
}

// TestEachCheckIsExplained where the link of its findings leads.
func TestEachCheckIsExplained(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range checks {
		if !strings.Contains(string(page), "\n### "+c.name+"\n\n") {
			t.Errorf("check %s has no paragraph", c.name)
		}
	}
}
