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
	dual   = notes{record.AnnotationPhase: "dual", record.AnnotationPhaseStep: "1", record.AnnotationShieldArmed: "u", record.AnnotationLegacyPods: old}
	sealed = notes{record.AnnotationPhase: "sealed", record.AnnotationPhaseStep: "2", record.AnnotationShieldArmed: "u"}
	other  = map[string]string{"config.yaml": "a: b"}
)

func TestEachConfigMapIsToldForWhatItIs(t *testing.T) {
	aAndB := []Owner{presenceOf("a"), presenceOf("b")}
	seen := []Owner{podOf("old")}
	a, b := leaseRef("lock.a", "lease-a"), leaseRef("lock.b", "lease-b")
	pod := podRef("p", "pu")
	for name, tc := range map[string]struct {
		cm   *corev1.ConfigMap
		want Record // without UID, Number and Object; Why is the text that it must contain
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

		"a shield":                       {configMap(dual, a, b), Record{Kind: Shield, Presences: aAndB, Armed: true, Phase: "dual", Step: 1, Seen: seen}},
		"of a newer Lease API":           {configMap(dual, a, metav1.OwnerReference{APIVersion: "coordination.k8s.io/v2", Kind: "Lease", Name: "lock.b", UID: "lease-b"}), Record{Kind: Shield, Presences: aAndB, Armed: true, Phase: "dual", Step: 1, Seen: seen}},
		"unarmed":                        {configMap(notes{record.AnnotationShieldArmed: "false"}, a), Record{Kind: Shield, Presences: aAndB[:1]}},
		"armed by hand":                  {configMap(notes{record.AnnotationShieldArmed: "true"}, a), Record{Kind: Shield, Presences: aAndB[:1]}},
		"restored from a copy":           {configMap(notes{record.AnnotationShieldArmed: "another", record.AnnotationLegacyPods: old}, a), Record{Kind: Shield, Presences: aAndB[:1], Seen: seen}},
		"to which data was added":        {holding(other, configMap(dual, a)), Record{Kind: Shield, Presences: aAndB[:1], Armed: true, Phase: "dual", Step: 1, Seen: seen}},
		"stripped of its annotations":    {configMap(nil, a, b), Record{Kind: Shield, Presences: aAndB}},
		"stripped of its owners":         {configMap(dual), Record{Kind: Shield, Armed: true, Phase: "dual", Step: 1, Seen: seen}},
		"of pods presumed gone":          {configMap(notes{record.AnnotationPresumedGone: old}, a), Record{Kind: Shield, Presences: aAndB[:1], Presumed: seen}},
		"of all but who was seen":        {configMap(notes{record.AnnotationLegacyPods: old}), Record{Kind: Shield, Seen: seen}},
		"with a pod among its owners":    {configMap(dual, a, pod), Record{Kind: Foreign, Why: "Pod p (v1)"}},
		"with another kind among them":   {configMap(dual, a, metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "nu"}), Record{Kind: Foreign, Why: "Node n (v1)"}},
		"with another API's Lease":       {configMap(dual, metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Lease", Name: "x", UID: "xu"}), Record{Kind: Foreign, Why: "example.com/v1"}},
		"with an election record on it":  {configMap(notes{recordKey: "{}", record.AnnotationShieldArmed: "u"}, a), Record{Kind: Foreign, Why: "election record"}},
		"garbage where its stage stands": {configMap(notes{record.AnnotationPhase: "x", record.AnnotationLegacyPods: `["x",5,null,{},{"name":"a"},{"uid":"c"},{"name":"b","uid":7},` + old[1:]}, a), Record{Kind: Shield, Presences: aAndB[:1], Seen: seen}},

		"sealed":              {configMap(sealed), Record{Kind: Sealed, Armed: true, Phase: "sealed", Step: 2}},
		"sealed, made anew":   {configMap(notes{record.AnnotationPhase: "sealed", record.AnnotationShieldArmed: "false"}), Record{Kind: Sealed, Phase: "sealed"}},
		"clean":               {configMap(notes{record.AnnotationPhase: "clean"}), Record{Kind: Sealed, Phase: "clean"}},
		"sealed, with owners": {configMap(sealed, a), Record{Kind: Shield, Presences: aAndB[:1], Armed: true, Phase: "sealed", Step: 2}},
		"sealed, with a pod":  {configMap(sealed, pod), Record{Kind: Legacy, Owner: Owner{"p", "pu"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Recognize(tc.cm)
			if tc.cm != nil && (got.Object != tc.cm || got.UID != tc.cm.UID || tc.cm.ResourceVersion == "7" && got.Number != 7) {
				t.Errorf("it is %+v, which does not keep its version", got)
			}
			if !strings.Contains(got.Why, tc.want.Why) || (got.Why == "") != (tc.want.Why == "") {
				t.Errorf("it is %q, want words like %q", got.Why, tc.want.Why)
			}
			got.UID, got.Number, got.Object, got.Why = "", 0, nil, tc.want.Why
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("\n got %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

// TestTwoOfOneNameAreTwo, because a StatefulSet's pod has its predecessor's name.
func TestTwoOfOneNameAreTwo(t *testing.T) {
	r := Record{Presences: []Owner{{"lock.a", "1"}}}
	if r.Has(Owner{"lock.a", "2"}) || !r.Has(Owner{"other", "1"}) {
		t.Error("presences are told by their names")
	}
}

// TestOnlySoManyLegacyPodsAreRead: the latest.
func TestOnlySoManyLegacyPodsAreRead(t *testing.T) {
	var list []string
	for i := range record.MaxLegacyPods + 1 {
		list = append(list, fmt.Sprintf(`{"name":"%d","uid":"uid-%d"}`, i, i))
	}
	all := "[" + strings.Join(list, ",") + "]"
	r := Recognize(configMap(notes{record.AnnotationLegacyPods: all, record.AnnotationPresumedGone: all}))
	for _, pods := range [][]Owner{r.Seen, r.Presumed} {
		if len(pods) != record.MaxLegacyPods || pods[0] != podOf("1") {
			t.Errorf("%d are read, the oldest is %v", len(pods), pods[0])
		}
	}
}
