// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package shieldmap

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks/ownerref"
)

func presenceOf(name string) ownerref.Owner {
	return ownerref.Owner{Name: "lock." + name, UID: types.UID("lease-" + name)}
}

func podOf(name string) ownerref.Owner {
	return ownerref.Owner{Name: name, UID: types.UID("uid-" + name)}
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
	const want = "[] [lock.a/lease-a] [lock.a/lease-a lock.b/lease-b] [lock.a/lease-a lock.c/lease-c]"
	if got := fmt.Sprint(s.Presences, one.Presences, two.Presences, other.Presences); got != want {
		t.Errorf("got %s, want %s", got, want)
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
