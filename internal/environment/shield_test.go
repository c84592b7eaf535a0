// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/locks/multilock/shield"
)

// TestAShieldInAnotherNamespaceThanThePodIsRefused: the garbage collector looks for an owner
// in the namespace of the owned object, so it would remove the presence at once, and legacy
// pods would not be found.
func TestAShieldInAnotherNamespaceThanThePodIsRefused(t *testing.T) {
	for namespace, ok := range map[string]bool{"locks": true, "": true, "pods": false} {
		self := Self{Identity: "a", PodName: "a", PodUID: "u", Namespace: namespace}
		e := &Environment{Config: &rest.Config{Host: "https://apiserver.test"}, Self: self, Namespace: "locks"}
		e.Timing = e.Timing.WithDefaults()
		_, err := e.Shield("lock", shield.Config{})
		if (err == nil) != ok || !ok && !strings.Contains(err.Error(), "this pod is in namespace pods") {
			t.Errorf("a pod in namespace %q: %v", namespace, err)
		}
	}
}

// TestAPodOfAnotherNamespaceOwnsNothing where the locks are, for the same reason. So its presence is renewed.
func TestAPodOfAnotherNamespaceOwnsNothing(t *testing.T) {
	own := presence.Pod{Name: "a", UID: "u"}
	for namespace, want := range map[string]presence.Pod{"locks": own, "": own, "pods": {}} {
		e := &Environment{Self: Self{PodName: own.Name, PodUID: string(own.UID), Namespace: namespace}, Namespace: "locks"}
		if got := e.Pod(); got != want {
			t.Errorf("a pod in namespace %q: owner %+v, want %+v", namespace, got, want)
		}
	}
}
