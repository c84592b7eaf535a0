// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/doctor"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/record"
)

var midnight = metav1.MicroTime{Time: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)}

// TestALeaseThatNobodyEverHeldIsLeftOut: it says nothing of an election.
func TestALeaseThatNobodyEverHeldIsLeftOut(t *testing.T) {
	if e, is := OfLease(&coordinationv1.Lease{}); is {
		t.Errorf("%+v", e)
	}
}

// forLife is the ConfigMap of a leader-for-life lock.
func forLife(fields ...metav1.ManagedFieldsEntry) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "op", ManagedFields: fields, OwnerReferences: []metav1.OwnerReference{apitest.PodRef("op-0", "u")},
	}}
}

// TestAConfigMapOfAPodThatHasDataIsNoLock: Spark's drivers own such, and many others.
func TestAConfigMapOfAPodThatHasDataIsNoLock(t *testing.T) {
	for text, want := range map[string]bool{`{"f:metadata":{}}`: true, `{"f:data":{}}`: false, `{"f:binaryData":{}}`: false} {
		o := forLife(metav1.ManagedFieldsEntry{Manager: "spark", FieldsV1: metav1.NewFieldsV1(text)})
		if e, is := OfObject(OnConfigMap, o); is != want || is && e.Holder != "pod/op-0" {
			t.Errorf("%s: %v, %+v", text, is, e)
		}
	}
	if _, is := OfObject(OnConfigMap, forLife()); is {
		t.Error("what is not known counts as a lock")
	}
}

// TestARecordOnAnAnnotationNamesItsHolder, whoever wrote it.
func TestARecordOnAnAnnotationNamesItsHolder(t *testing.T) {
	for text, want := range map[string]Election{
		`{"holderIdentity":"a","leaseDurationSeconds":15}`:                                {Holder: "a", LeaseDurationSeconds: 15},
		`{"renewTime":"2000-01-01 00:00:00.1","holderIdentity":"b","leaseDuration":"17"}`: {Holder: "b", foreign: true},
		`no JSON`: {foreign: true},
	} {
		o := &metav1.PartialObjectMetadata{}
		o.Annotations = map[string]string{resourcelock.LeaderElectionRecordAnnotationKey: text}
		e, is := OfObject(OnEndpoints, o)
		same := e.Holder == want.Holder && e.LeaseDurationSeconds == want.LeaseDurationSeconds && e.foreign == want.foreign
		if !is || e.Kind != OnEndpoints || !same {
			t.Errorf("%s: %v, %+v", text, is, e)
		}
	}
}

// TestOnlyWhatIsCertainIsFound.
func TestOnlyWhatIsCertainIsFound(t *testing.T) {
	lease := func(change ...func(*coordinationv1.Lease)) Election {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "op"}}
		l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = new("op-0_1"), new(int32(15)), &midnight
		for _, do := range change {
			do(l)
		}
		e, is := OfLease(l)
		if !is {
			t.Fatalf("%+v is no election", l)
		}
		return e
	}
	ours := func(l *coordinationv1.Lease) {
		l.Annotations = map[string]string{record.AnnotationHolder: "op-0_1", record.AnnotationPod: "op-0/u"}
	}
	renewed := func(l *coordinationv1.Lease) { l.Spec.RenewTime = &metav1.MicroTime{Time: midnight.Add(time.Second)} }
	nobody := func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil }
	another := func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("b") }
	long := func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = new(int32(60)) }
	endless := func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = nil }
	life, _ := OfObject(OnConfigMap, forLife(metav1.ManagedFieldsEntry{FieldsV1: metav1.NewFieldsV1(`{}`)}))
	pod := func(uid string, change ...func(*corev1.Pod)) Pods {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
		if uid != "" {
			p.UID = "another"
		}
		for _, do := range change {
			do(p)
		}
		return Pods{Value: map[string]Pod{"ns/op-0": PodOf(p)}}
	}
	ended := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	done := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	theirs := Election{Kind: OnConfigMap, Namespace: "ns", Holder: "op-0_1", foreign: true}
	going := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: midnight.Time} }
	none := Pods{Value: map[string]Pod{}}
	for name, tc := range map[string]struct {
		before, after Election
		pods          Pods
		want          string // the findings' results and checks
	}{
		"it is renewed":                        {lease(), lease(renewed), pod(""), ""},
		"it is renewed, and its pod is gone":   {lease(ours), lease(ours, renewed), none, ""},
		"nobody renews it":                     {lease(), lease(), none, "warning silent"},
		"its pod is there":                     {lease(), lease(), pod(""), "problem silent"},
		"nobody may see pods":                  {lease(ours), lease(ours), Pods{Unknown: "forbidden"}, "warning silent"},
		"its pod has ended":                    {lease(), lease(), pod("", ended), "problem holder-gone"},
		"its pod has done its work":            {lease(), lease(), pod("", done), "problem holder-gone"},
		"another library's record":             {theirs, theirs, pod(""), "note old-record"},
		"its pod is being deleted":             {lease(), lease(), pod("", going), "problem holder-gone"},
		"its pod is gone":                      {lease(ours), lease(ours), none, "problem holder-gone"},
		"another pod has its name":             {lease(ours), lease(ours), pod("another"), "problem holder-gone"},
		"another holds it now":                 {lease(another), lease(), pod(""), ""},
		"its lease is longer than the watch":   {lease(long), lease(long), pod(""), "note unseen"},
		"it has no duration":                   {lease(), lease(endless), pod(""), "warning no-duration"},
		"nobody takes it":                      {lease(nobody), lease(nobody), pod(""), "warning vacant"},
		"it was released just now":             {lease(), lease(nobody), pod(""), ""},
		"leader-for-life":                      {life, life, pod(""), "warning for-life"},
		"leader-for-life, its pod is gone":     {life, life, none, "warning for-life, problem holder-gone"},
		"leader-for-life, nobody may see pods": {life, life, Pods{Unknown: "forbidden"}, "warning for-life"},
	} {
		var got []string
		for _, f := range Judge([]Election{tc.before}, []Election{tc.after}, 20*time.Second, tc.pods)[0].Findings {
			got = append(got, string(f.Result)+" "+f.Check)
		}
		if strings.Join(got, ", ") != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// TestEachCheckIsExplained where the link of its findings leads.
func TestEachCheckIsExplained(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, check := range append(slices.Collect(maps.Keys(hints)), "rights") {
		link := Say(check, doctor.Note, "").Link
		if !strings.Contains(string(page), "\n### "+check+"\n\n") || !strings.HasSuffix(link, "/docs/audit.md#"+check) {
			t.Errorf("check %s has no paragraph at %s", check, link)
		}
	}
}
