// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package multilock

import (
	"net/http"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// TestTheEndOfASilentWatchIsWaitedFor and not asked for over and over: who begins
// to lead may have heard nothing for long.
func TestTheEndOfASilentWatchIsWaitedFor(t *testing.T) {
	none := http.NotFoundHandler()
	s, err := NewShield(ShieldConfig{
		Lease:     lease.Config{Client: apitest.Wire(t, none, coordinationv1.SchemeGroupVersion), Namespace: "ns", Name: "lock"},
		Core:      apitest.Wire(t, none, corev1.SchemeGroupVersion),
		Apps:      apitest.Wire(t, none, appsv1.SchemeGroupVersion),
		Candidate: election.Candidate{Identity: "a"},
		Pod:       ownerref.Owner{Kind: ownerref.Pod, Name: "a", UID: "a"},
		Selector:  "app=op",
	})
	if err != nil {
		t.Fatal(err)
	}
	k := newKeeper(s, func(election.Clearance) {})
	stopped := 0
	k.duty, k.busy = leading, true
	k.watch = watch{ended: make(chan error), heard: time.Now().Add(-2 * deafAfter), cancel: func() { stopped++ }}
	if next := k.proceed(t.Context()); !next.After(time.Now()) || stopped == 0 {
		t.Errorf("it looks again at %v, having stopped the watch %d times", next, stopped)
	}
}
