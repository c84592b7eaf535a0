// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ownerref

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/record"
)

const recordKey = "control-plane.alpha.kubernetes.io/leader"

func podRef(name, uid string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: name, UID: types.UID(uid)}
}

func leaseRef(name, uid string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Name: name, UID: types.UID(uid)}
}

func presenceOf(name string) Owner { return Owner{"lock." + name, types.UID("lease-" + name)} }

func podOf(name string) Owner { return Owner{name, types.UID("uid-" + name)} }

// configMap returns a ConfigMap with the UID "u" at version 7.
func configMap(annotations map[string]string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "lock", Namespace: "ns", UID: "u", ResourceVersion: "7",
		Annotations: annotations, OwnerReferences: owners,
	}}
}

func holding(data map[string]string, cm *corev1.ConfigMap) *corev1.ConfigMap {
	cm.Data = data
	return cm
}

type notes = map[string]string

// old is a list of one pod, in an annotation.
const old = `[{"name":"old","uid":"uid-old"}]`

var (
	dual   = notes{record.AnnotationPhase: "dual", record.AnnotationPhaseStep: "1", annotationArmed: "u", annotationSeen: old}
	sealed = notes{record.AnnotationPhase: "sealed", record.AnnotationPhaseStep: "2", annotationArmed: "u"}
	other  = map[string]string{"config.yaml": "a: b"}
)

func TestEachConfigMapIsToldForWhatItIs(t *testing.T) {
	aAndB := []Owner{presenceOf("a"), presenceOf("b")}
	stage := record.Stage{Phase: record.PhaseDual, Step: 1}
	seen := []Owner{podOf("old")}
	a, b := leaseRef("lock.a", "lease-a"), leaseRef("lock.b", "lease-b")
	pod := podRef("p", "pu")
	for name, tc := range map[string]struct {
		cm   *corev1.ConfigMap
		want Record // without UID, Number and object; Why is the text that it must contain
	}{
		"nothing": {nil, Record{Kind: Absent}},

		"leader-for-life":             {configMap(nil, pod), Record{Kind: Legacy, Owner: Owner{"p", "pu"}}},
		"with labels of others":       {configMap(notes{"team": "a"}, pod), Record{Kind: Legacy, Owner: Owner{"p", "pu"}}},
		"with marks of a shield":      {configMap(dual, pod), Record{Kind: Legacy, Owner: Owner{"p", "pu"}}},
		"with data":                   {holding(other, configMap(nil, pod)), Record{Kind: Foreign, Why: "holds data"}},
		"with data and marks":         {holding(other, configMap(dual, pod)), Record{Kind: Foreign, Why: "holds data"}},
		"with a record of client-go":  {configMap(notes{recordKey: `{"holderIdentity":"x"}`}, pod), Record{Kind: Foreign, Why: "set the legacy kind to configmap"}},
		"with a garbled such record":  {configMap(notes{recordKey: ""}, pod), Record{Kind: Foreign, Why: "election record"}},
		"two pods":                    {configMap(nil, pod, podRef("q", "qu")), Record{Kind: Foreign, Why: "Pod p (v1), Pod q (v1)"}},
		"a pod and its Deployment":    {configMap(nil, pod, metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", UID: "du"}), Record{Kind: Foreign, Why: "Deployment d (apps/v1)"}},
		"an owner of another kind":    {configMap(nil, metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", UID: "du"}), Record{Kind: Foreign, Why: "Deployment d (apps/v1)"}},
		"a Pod of another API":        {configMap(nil, metav1.OwnerReference{APIVersion: "metrics.k8s.io/v1beta1", Kind: "Pod", Name: "p", UID: "pu"}), Record{Kind: Foreign, Why: "metrics.k8s.io/v1beta1"}},
		"a pod without UID":           {configMap(nil, podRef("p", "")), Record{Kind: Foreign, Why: "Pod p"}},
		"no owner and nothing in it":  {configMap(nil), Record{Kind: Foreign, Why: "has no owner", Bare: true}},
		"no lock at all":              {holding(other, configMap(nil)), Record{Kind: Foreign, Why: "holds data"}},
		"binary data":                 {&corev1.ConfigMap{BinaryData: map[string][]byte{"x": {1}}}, Record{Kind: Foreign, Why: "holds data"}},
		"no owner, but a record":      {configMap(notes{recordKey: "{}"}), Record{Kind: Foreign, Why: "election record"}},
		"another program's dependent": {holding(other, configMap(nil, a)), Record{Kind: Foreign, Why: "holds data"}},

		"a shield":                       {configMap(dual, a, b), Record{Kind: Shield, Shield: ShieldState{aAndB, true, stage, seen, nil}}},
		"of a newer Lease API":           {configMap(dual, a, metav1.OwnerReference{APIVersion: "coordination.k8s.io/v2", Kind: "Lease", Name: "lock.b", UID: "lease-b"}), Record{Kind: Shield, Shield: ShieldState{aAndB, true, stage, seen, nil}}},
		"unarmed":                        {configMap(notes{annotationArmed: "false"}, a), Record{Kind: Shield, Shield: ShieldState{Presences: aAndB[:1]}}},
		"armed by hand":                  {configMap(notes{annotationArmed: "true"}, a), Record{Kind: Shield, Shield: ShieldState{Presences: aAndB[:1]}}},
		"restored from a copy":           {configMap(notes{annotationArmed: "another", annotationSeen: old}, a), Record{Kind: Shield, Shield: ShieldState{Presences: aAndB[:1], Seen: seen}}},
		"to which data was added":        {holding(other, configMap(dual, a)), Record{Kind: Shield, Shield: ShieldState{aAndB[:1], true, stage, seen, nil}}},
		"stripped of its annotations":    {configMap(nil, a, b), Record{Kind: Shield, Shield: ShieldState{Presences: aAndB}}},
		"stripped of its owners":         {configMap(dual), Record{Kind: Shield, Shield: ShieldState{nil, true, stage, seen, nil}}},
		"of pods presumed gone":          {configMap(notes{annotationPresumed: old}, a), Record{Kind: Shield, Shield: ShieldState{Presences: aAndB[:1], Presumed: seen}}},
		"of all but who was seen":        {configMap(notes{annotationSeen: old}), Record{Kind: Shield, Shield: ShieldState{Seen: seen}}},
		"with a pod among its owners":    {configMap(dual, a, pod), Record{Kind: Foreign, Why: "Pod p (v1)"}},
		"with another kind among them":   {configMap(dual, a, metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "nu"}), Record{Kind: Foreign, Why: "Node n (v1)"}},
		"with another API's Lease":       {configMap(dual, metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Lease", Name: "x", UID: "xu"}), Record{Kind: Foreign, Why: "example.com/v1"}},
		"with an election record on it":  {configMap(notes{recordKey: "{}", annotationArmed: "u"}, a), Record{Kind: Foreign, Why: "election record"}},
		"garbage where its stage stands": {configMap(notes{record.AnnotationPhase: "x", annotationSeen: `["x",5,null,{},{"name":"a"},{"uid":"c"},{"name":"b","uid":7},` + old[1:]}, a), Record{Kind: Shield, Shield: ShieldState{Presences: aAndB[:1], Seen: seen}}},

		"sealed":              {configMap(sealed), Record{Kind: Sealed, Shield: ShieldState{Armed: true, Stage: record.Stage{Phase: record.PhaseSealed, Step: 2}}}},
		"sealed, made anew":   {configMap(notes{record.AnnotationPhase: "sealed", annotationArmed: "false"}), Record{Kind: Sealed, Shield: ShieldState{Stage: record.Stage{Phase: record.PhaseSealed}}}},
		"clean":               {configMap(notes{record.AnnotationPhase: "clean"}), Record{Kind: Sealed, Shield: ShieldState{Stage: record.Stage{Phase: record.PhaseClean}}}},
		"sealed, with owners": {configMap(sealed, a), Record{Kind: Shield, Shield: ShieldState{Presences: aAndB[:1], Armed: true, Stage: record.Stage{Phase: record.PhaseSealed, Step: 2}}}},
		"sealed, with a pod":  {configMap(sealed, pod), Record{Kind: Legacy, Owner: Owner{"p", "pu"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Recognize(tc.cm)
			if tc.cm != nil && (got.object != tc.cm || got.UID != tc.cm.UID || tc.cm.ResourceVersion == "7" && got.Number != 7) {
				t.Errorf("it is %+v, which does not keep its version", got)
			}
			if !strings.Contains(got.Why, tc.want.Why) || (got.Why == "") != (tc.want.Why == "") {
				t.Errorf("it is %q, want words like %q", got.Why, tc.want.Why)
			}
			got.UID, got.Number, got.object, got.Why = "", 0, nil, tc.want.Why
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("\n got %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

func TestAShieldsStateIsAValue(t *testing.T) {
	s := ShieldState{Presences: make([]Owner, 0, 9), Seen: make([]Owner, 0, 9)}
	a, b := presenceOf("a"), presenceOf("b")
	one := s.With(a)
	two, other := one.With(b), one.With(presenceOf("c"))
	if s.Has(a) || one.Has(b) || !two.Has(a) || !two.Has(b) || two.Has(presenceOf("c")) || other.Has(b) {
		t.Errorf("got %v, %v, %v, %v", s, one, two, other)
	}
	if again := two.With(Owner{"renamed", a.UID}); len(again.Presences) != 2 {
		t.Errorf("twice the same presence: %v", again)
	}
	less := two.Without(a)
	if less.Has(a) || !less.Has(b) || !two.Has(a) {
		t.Errorf("without a: %v of %v", less, two)
	}
	remembered := s.Remember(podOf("p")).Remember(podOf("q"))
	forgot := remembered.Forget(podOf("p"))
	if fmt.Sprint(remembered.Seen) != "[p/uid-p q/uid-q]" || fmt.Sprint(forgot.Seen) != "[q/uid-q]" {
		t.Errorf("remembered %v, then %v", remembered.Seen, forgot.Seen)
	}
}

func TestOnlySoManyAreRemembered(t *testing.T) {
	var s ShieldState
	for i := range maxSeen + 5 {
		s = s.Remember(podOf(fmt.Sprint(i)))
	}
	if len(s.Seen) != maxSeen || s.Seen[0] != podOf("5") {
		t.Errorf("%d are remembered, the oldest is %v", len(s.Seen), s.Seen[0])
	}
	written := s.With(presenceOf("a")).written(configMap(nil))
	written.Annotations[annotationSeen] = `[{"name":"first","uid":"uid-first"},` + written.Annotations[annotationSeen][1:]
	if got := Recognize(written).Shield.Seen; !reflect.DeepEqual(got, s.Seen) {
		t.Errorf("read back %v", got)
	}
}

// TestTwoOfOneNameAreTwo, because a StatefulSet's pod has its predecessor's name.
func TestTwoOfOneNameAreTwo(t *testing.T) {
	s := ShieldState{}.With(Owner{"lock.a", "1"})
	if s.Has(Owner{"lock.a", "2"}) || !s.Has(Owner{"other", "1"}) {
		t.Error("presences are told by their names")
	}
	if s = s.Without(Owner{"lock.a", "2"}); len(s.Presences) != 1 {
		t.Error("another presence of that name was taken out")
	}
}
