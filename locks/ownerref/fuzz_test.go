// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ownerref

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks/annotation"
)

// FuzzRecognize reads any JSON that decodes as a ConfigMap: only the exact marks make it
// armed or sealed, a shield never has an owner that is not a presence, and a state reads
// the same after it is written.
func FuzzRecognize(f *testing.F) {
	for _, seed := range []string{
		`{"metadata":{"name":"op","uid":"c","resourceVersion":"7","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"u"}]}}`,
		`{"metadata":{"uid":"c","annotations":{"zonelect.dev/shield-armed":"c","zonelect.dev/phase":"dual","zonelect.dev/phase-step":"1","zonelect.dev/legacy-pods":"[{\"name\":\"a\",\"uid\":\"u\"},{\"name\":\"b\",\"uid\":\"v\"}]","zonelect.dev/presumed-gone":"[{\"name\":\"a\",\"uid\":\"u\"}]"},"ownerReferences":[{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","name":"op.a","uid":"p"}]}}`,
		`{"metadata":{"uid":"c","annotations":{"zonelect.dev/shield-armed":"true","zonelect.dev/phase":"sealed","zonelect.dev/phase-step":"3"}}}`,
		`{"metadata":{"annotations":{"zonelect.dev/shield-armed":""}}}`,
		`{"metadata":{"uid":"c","annotations":{"team":"a"}}}`,
		`{"metadata":{"annotations":{"control-plane.alpha.kubernetes.io/leader":"{}"},"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"u"}]}}`,
		`{"metadata":{"ownerReferences":[{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","uid":"p"},{"apiVersion":"v1","kind":"Pod","uid":"u"}]},"data":{"a":"b"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var cm corev1.ConfigMap
		if json.Unmarshal(b, &cm) != nil {
			t.Skip("no ConfigMap")
		}
		r := Recognize(&cm)
		judgeRecord(t, &cm, r)
		if (r.Kind != Shield && r.Kind != Sealed) || r.Shield.check() != nil {
			return
		}
		if again := Recognize(r.Shield.written(&cm)); again.Kind != r.Kind || !reflect.DeepEqual(again.Shield, r.Shield) {
			t.Fatalf("read %+v\nthen %+v", r, again)
		}
	})
}

// judgeRecord checks a record against the ConfigMap that it was read from.
func judgeRecord(t *testing.T, cm *corev1.ConfigMap, r Record) {
	t.Helper()
	owners, marks := cm.OwnerReferences, cm.Annotations
	onePod := len(owners) == 1 && owners[0].Kind == "Pod" && owners[0].APIVersion == "v1" && owners[0].UID != ""
	_, elected := marks[annotation.AnnotationRecord]
	if elected && r.Kind != Foreign {
		t.Fatalf("a record of client-go's is read as %s", r.Kind)
	}
	switch r.Kind {
	case Legacy:
		if !onePod || r.Owner.UID != owners[0].UID {
			t.Fatalf("owned by %+v, read as %+v", owners, r.Owner)
		}
	case Shield, Sealed:
		for _, o := range owners {
			if o.Kind != "Lease" || o.UID == "" {
				t.Fatalf("%+v stands on a %s", o, r.Kind)
			}
		}
	case Foreign:
		if r.Why == "" || len(r.Why) > mostWhy {
			t.Fatalf("why it is foreign has %d bytes", len(r.Why))
		}
		if r.Bare && (len(owners)+len(cm.Data)+len(cm.BinaryData) > 0 || elected) {
			t.Fatalf("%+v is read as bare", cm)
		}
	}
	phase := record.Phase(marks[record.AnnotationPhase])
	if r.Kind == Sealed && (len(owners) > 0 || phase != record.PhaseSealed && phase != record.PhaseClean) {
		t.Fatalf("in phase %q with %d owners it is read as sealed", phase, len(owners))
	}
	if r.Shield.Armed && (cm.UID == "" || marks[AnnotationArmed] != string(cm.UID) || onePod) {
		t.Fatalf("armed %q of UID %q is read as armed", marks[AnnotationArmed], cm.UID)
	}
	if len(r.Shield.Seen) > MaxSeen || len(r.Shield.Presumed) > MaxSeen {
		t.Fatalf("%d pods were read", max(len(r.Shield.Seen), len(r.Shield.Presumed)))
	}
}

// mostWhy is longer than any reason.
const mostWhy = 20 << 10

// FuzzJudge judges any JSON that decodes as a pod, with any observation: the pod has
// ended only if it is finished, none of its containers runs and its kubelet is alive, and
// it counts as gone only after the grace has passed.
func FuzzJudge(f *testing.F) {
	const finished = `{"metadata":{"uid":"u"},"spec":{"nodeName":"n","containers":[{}],"terminationGracePeriodSeconds":9223372036854775807},"status":{"phase":"Failed"}}`
	f.Add([]byte(finished), "u", uint8(0x1f), int64(time.Second), int64(time.Minute), int64(time.Minute))
	f.Add([]byte(finished), "v", uint8(0), int64(0), int64(0), int64(0))
	f.Add([]byte(`{"metadata":{"uid":"u","deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"nodeName":"n"},"status":{"phase":"Running"}}`), "u", uint8(7), int64(time.Hour), int64(0), int64(time.Minute))
	f.Add([]byte(`{"metadata":{"uid":"u"},"status":{"phase":"Succeeded","containerStatuses":[{"state":{"running":{}}}]}}`), "u", uint8(0x7f), int64(-1), int64(-1), int64(-1))
	f.Fuzz(func(t *testing.T, b []byte, uid string, bits uint8, silent, finishedFor, grace int64) {
		var pod corev1.Pod
		if json.Unmarshal(b, &pod) != nil {
			t.Skip("no pod")
		}
		bit := func(n int) bool { return bits&(1<<n) != 0 }
		s := NodeObservation{
			HeartKnown: bit(0), Beats: bit(1), OthersBeat: bit(2), NodeKnown: bit(3), Exists: bit(4), Ready: bit(5), OutOfService: bit(6),
			SilentFor: time.Duration(silent), FinishedFor: time.Duration(finishedFor), Grace: time.Duration(grace),
		}
		v := Judge(Owner{Kind: Pod, UID: types.UID(uid)}, &pod, s)
		byTime := s.Grace > 0 && pod.Spec.NodeName != "" && (s.NodeKnown && s.OutOfService || s.HeartKnown && s.OthersBeat && s.SilentFor >= s.Grace)
		switch {
		case v.MayLead && v.Presumed, v.Presumed && !byTime:
			t.Fatalf("%+v after %+v", v, s)
		case v.MayLead || v.Presumed || pod.UID != types.UID(uid) || pod.Spec.NodeName == "" && finishedPhase(pod):
			return
		}
		kubelet := s.HeartKnown && s.Beats || !s.HeartKnown && s.NodeKnown && s.Exists && s.Ready
		if !finishedPhase(pod) || runs(&pod) || !kubelet {
			t.Fatalf("a pod in phase %s has ended by %+v: %+v", pod.Status.Phase, s, v)
		}
		if g := pod.Spec.TerminationGracePeriodSeconds; g != nil && !reported(&pod) && s.FinishedFor.Seconds() < float64(min(*g, mostGrace)) {
			t.Fatalf("of a grace of %ds %v have passed, and it counts as ended", *g, s.FinishedFor)
		}
	})
}

func finishedPhase(pod corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// TestWhoeverWritesManyOwnersIsNotToldInFull, and a shield with as many presences is
// still a shield.
func TestWhoeverWritesManyOwnersIsNotToldInFull(t *testing.T) {
	cm := &corev1.ConfigMap{}
	for i := range 10000 {
		cm.OwnerReferences = append(cm.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: Pod, Name: strings.Repeat("x", 1000), UID: types.UID(rune(i))})
	}
	if r := Recognize(cm); r.Kind != Foreign || len(r.Why) > mostWhy || !strings.Contains(r.Why, "and 9995 more") {
		t.Errorf("it is %s: %d bytes", r.Kind, len(r.Why))
	}
	for i := range cm.OwnerReferences {
		cm.OwnerReferences[i].APIVersion, cm.OwnerReferences[i].Kind = "coordination.k8s.io/v1", Lease
	}
	cm.Annotations = map[string]string{AnnotationArmed: unarmed}
	if r := Recognize(cm); r.Kind != Shield || r.Shield.Armed {
		t.Errorf("it is %s: %s", r.Kind, r.Why)
	}
}
