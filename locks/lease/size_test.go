// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/history"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// TestAFullHistoryAddsNoMoreThanFourKilobytesToALease of a Deployment's pods, as it is sent: in
// each renewal, its answer and the event that each watch gets. docs/scale.md has the numbers.
func TestAFullHistoryAddsNoMoreThanFourKilobytesToALease(t *testing.T) {
	for _, terms := range []int{1, 3, history.MaxTerms} {
		pod := func(i int) string { return fmt.Sprintf("metal3-controller-7c9d8b6f5d-x2x%02d", i) }
		at := time.Date(2026, 11, 23, 12, 0, 0, 123456000, time.UTC)
		r := locks.Record{Holder: pod(terms-1) + "_9f8e7d6c", LeaseDuration: 15 * time.Second, AcquireTime: at, RenewTime: at, Transitions: 20}
		r.Details = locks.Details{
			Holder: r.Holder, Token: 412345678, Nonce: "0123456789abcdef", Zone: "eu-central-1a", Node: "ip-10-0-12-34.eu-central-1.compute.internal",
			Pod: locks.Pod{Name: pod(terms - 1), UID: "0f8fad5b-d9cb-469f-a165-70867728950e"}, Container: "manager", Trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
			ProcessID: locks.ProcessID{ContainerID: "containerd://5d5d3f6a8a1c2b1f0e9d8c7b6a5948372615049382716059483726150493827a", ProcessLock: "6b1f3c1e-7d2b-4f6e-9a53-2d0c7a1b4e88/net:[4026532281]/0f4a3c5de1b2968778695a4b3c2d1e0f"},
		}
		base := &coordinationv1.Lease{
			TypeMeta:   metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "metal3-system", Name: "metal3-controller", UID: "7c9e6679-7425-40de-944b-e07fc1f90ae7", ResourceVersion: "412345690"},
		}
		size := func(r locks.Record) int {
			sent, err := json.Marshal(record.Write(base, r))
			if err != nil {
				t.Fatal(err)
			}
			return len(sent)
		}
		without := size(r)
		for i := range terms {
			r.History = history.With(r.History, history.Term{
				Acquired: at, Holder: pod(i) + "_9f8e7d6c", Zone: "eu-central-1a", Token: 412345600 + uint64(i), Cause: "expired", NobodyLed: apitest.Ptr(15_020 * time.Millisecond),
			})
		}
		more := size(r) - without
		if all, err := history.Parse(r.History); err != nil || len(all) != terms || more > 4096 {
			t.Errorf("%d terms, %v, and %d bytes more", len(all), err, more)
		}
		t.Logf("%2d terms: the annotation has %d bytes, and adds %d to the %d bytes of a renewal", terms, len(r.History), more, without)
	}
}
