// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ownerref

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks/annotation"
)

// FuzzRecognize reads any JSON that decodes as a ConfigMap: only the exact marks make it
// armed or sealed, and a shield never has an owner that is not a presence.
func FuzzRecognize(f *testing.F) {
	on, pod, presence := apitest.ConfigMap, apitest.PodRef("a", "u"), apitest.LeaseRef("op.a", "p")
	for _, seed := range []*corev1.ConfigMap{
		on(nil, pod),
		on(dual, presence),
		on(notes{goneMark: old, armedMark: "u"}, presence),
		on(notes{phaseMark: "sealed", stepMark: "3", armedMark: "true"}),
		on(notes{armedMark: ""}),
		on(notes{"team": "a"}),
		on(notes{recordKey: "{}"}, pod),
		holding(other, on(nil, apitest.LeaseRef("", "p"), apitest.PodRef("", "u"))),
	} {
		f.Add(apitest.Marshal(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var cm corev1.ConfigMap
		if json.Unmarshal(b, &cm) != nil {
			t.Skip("no ConfigMap")
		}
		judgeRecord(t, &cm, Recognize(&cm))
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
	phase := record.Phase(marks[phaseMark])
	if r.Kind == Sealed && (len(owners) > 0 || phase != record.PhaseSealed && phase != record.PhaseClean) {
		t.Fatalf("in phase %q with %d owners it is read as sealed", phase, len(owners))
	}
	if r.Armed && (cm.UID == "" || marks[armedMark] != string(cm.UID) || onePod) {
		t.Fatalf("armed %q of UID %q is read as armed", marks[armedMark], cm.UID)
	}
	if len(r.Seen) > record.MaxLegacyPods || len(r.Presumed) > record.MaxLegacyPods {
		t.Fatalf("%d pods were read", max(len(r.Seen), len(r.Presumed)))
	}
}

// mostWhy is longer than any reason.
const mostWhy = 20 << 10

// TestWhoeverWritesManyOwnersIsNotToldInFull, and a shield with as many presences is
// still a shield.
func TestWhoeverWritesManyOwnersIsNotToldInFull(t *testing.T) {
	cm := &corev1.ConfigMap{}
	for i := range 10000 {
		cm.OwnerReferences = append(cm.OwnerReferences, apitest.PodRef(strings.Repeat("x", 1000), string(rune(i))))
	}
	if r := Recognize(cm); r.Kind != Foreign || len(r.Why) > mostWhy {
		t.Errorf("it is %s: %d bytes", r.Kind, len(r.Why))
	}
	for i := range cm.OwnerReferences {
		cm.OwnerReferences[i].APIVersion, cm.OwnerReferences[i].Kind = "coordination.k8s.io/v1", "Lease"
	}
	cm.Annotations = map[string]string{armedMark: "false"}
	if r := Recognize(cm); r.Kind != Shield || r.Armed {
		t.Errorf("it is %s: %s", r.Kind, r.Why)
	}
}
