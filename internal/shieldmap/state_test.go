// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package shieldmap

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks/ownerref"
)

func podRef(name, uid string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: name, UID: types.UID(uid)}
}

func leaseRef(name, uid string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Name: name, UID: types.UID(uid)}
}

func presenceOf(name string) ownerref.Owner {
	return ownerref.Owner{Name: "lock." + name, UID: types.UID("lease-" + name)}
}

func podOf(name string) ownerref.Owner {
	return ownerref.Owner{Name: name, UID: types.UID("uid-" + name)}
}

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

var (
	dual  = notes{record.AnnotationPhase: "dual", record.AnnotationPhaseStep: "1", record.AnnotationShieldArmed: "u"}
	other = map[string]string{"config.yaml": "a: b"}
)

func TestAStateIsAValue(t *testing.T) {
	s := State{Presences: make([]ownerref.Owner, 0, 9), Seen: make([]ownerref.Owner, 0, 9)}
	a := presenceOf("a")
	one := s.With(a)
	two, other := one.With(presenceOf("b")), one.With(presenceOf("c"))
	for want, got := range map[string]State{"[]": s, "[lock.a/lease-a]": one, "[lock.a/lease-a lock.b/lease-b]": two, "[lock.a/lease-a lock.c/lease-c]": other} {
		if fmt.Sprint(got.Presences) != want {
			t.Errorf("got %v, want %s", got.Presences, want)
		}
	}
	if again := two.With(ownerref.Owner{Name: "renamed", UID: a.UID}); len(again.Presences) != 2 {
		t.Errorf("twice the same presence: %v", again)
	}
	p := s.Remember(podOf("p"))
	q, r := p.Remember(podOf("q")), p.Remember(podOf("r"))
	if got := fmt.Sprint(s.Seen, p.Seen, q.Seen, r.Seen); got != "[] [p/uid-p] [p/uid-p q/uid-q] [p/uid-p r/uid-r]" {
		t.Errorf("remembered %s", got)
	}
}

func TestOnlySoManyAreRemembered(t *testing.T) {
	var s State
	for i := range record.MaxLegacyPods + 5 {
		s = s.Remember(podOf(fmt.Sprint(i)))
	}
	if len(s.Seen) != record.MaxLegacyPods || s.Seen[0] != podOf("5") {
		t.Errorf("%d are remembered, the oldest is %v", len(s.Seen), s.Seen[0])
	}
}

// TestTwoOfOneNameAreTwo, because a StatefulSet's pod has its predecessor's name.
func TestTwoOfOneNameAreTwo(t *testing.T) {
	s := State{}.With(ownerref.Owner{Name: "lock.a", UID: "1"}, ownerref.Owner{Name: "lock.a", UID: "2"})
	if len(s.Presences) != 2 {
		t.Errorf("of two presences it has %v", s.Presences)
	}
}

// FuzzWritten reads any JSON that decodes as a ConfigMap: a state reads the same after it is
// written.
func FuzzWritten(f *testing.F) {
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
		r := ownerref.Recognize(&cm)
		s := StateOf(r)
		if (r.Kind != ownerref.Shield && r.Kind != ownerref.Sealed) || s.check() != nil {
			return
		}
		if again := ownerref.Recognize(s.written(&cm)); again.Kind != r.Kind || !reflect.DeepEqual(StateOf(again), s) {
			t.Fatalf("read %+v\nthen %+v", r, again)
		}
	})
}
