// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
)

const leases = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/"

// invent makes up candidates, the first of whose names sort before all others.
func invent(t *testing.T, r inspect.Reader, server *apitest.Server, n int) {
	t.Helper()
	for i := range n {
		pod := presence.Pod{Name: fmt.Sprintf("a%04d", i), UID: types.UID(fmt.Sprint("made-up-", i))}
		made, err := presence.Ensure(t.Context(), r.Coordination, "ns", presence.Object{Lock: key.Name, Pod: pod, Identity: pod.Name, Zone: "za"}, nil, func(context.Context) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		server.Change(leases+made.Name, func(o apitest.Object) {
			o["metadata"].(apitest.Object)["creationTimestamp"] = "2026-01-01T00:00:00Z"
		})
	}
}

// TestMadeUpCandidatesAreCountedAndNotLookedAt one by one, without a bound.
func TestMadeUpCandidatesAreCountedAndNotLookedAt(t *testing.T) {
	for _, mayList := range []bool{true, false} {
		r, server := reader(t, "op-1", "op-2")
		server.Put(leases+"op", heldBy("op-1"))
		invent(t, r, server, 1000)
		pods := 0
		server.Before = func(verb, path string) (int, apitest.Object) {
			if strings.Contains(path, "/pods") {
				if pods++; verb == "list" && !mayList {
					return apitest.Forbidden(verb, path)
				}
			}
			return 0, nil
		}
		e, err := r.Election(t.Context(), key)
		if err == nil {
			err = r.Surroundings(t.Context(), &e)
		}
		if err != nil || len(e.Candidates) != 300 || !strings.Contains(fmt.Sprint(e.Notes), "702 more candidates") {
			t.Fatalf("%d candidates, %v, %v", len(e.Candidates), e.Notes, err)
		}
		if most := map[bool]int{true: 1, false: 301}[mayList]; pods > most {
			t.Errorf("it made %d requests for pods", pods)
		}
		present := inspect.Present(e.Candidates)
		if len(present) != 2 || present[0].Pod != "op-1" || present[1].Pod != "op-2" {
			t.Errorf("%d are there", len(present))
		}
		all, err := r.Elections(t.Context(), "ns")
		if err != nil || len(all) != 1 || len(all[0].Candidates) != 300 {
			t.Errorf("a list has %d locks, %v", len(all), err)
		}
		whole, err := r.Candidates(t.Context(), e)
		if err != nil || len(whole) != 1002 {
			t.Errorf("a migration sees %d, %v", len(whole), err)
		}
	}
}

// TestALongLeaseHidesNoLock, and little of it is kept. A lock's own one still is held by whom it
// names.
func TestALongLeaseHidesNoLock(t *testing.T) {
	r, server := reader(t, "op-1")
	long := strings.Repeat("x", 1_450_000)
	mine := heldBy(long)
	mine.Annotations = map[string]string{record.AnnotationHolder: "op-1", record.AnnotationPrevious: long[:200_000], "other": long[:50_000]}
	server.Put(leases+"op", mine)
	for i := range 10 {
		server.Put(fmt.Sprint(leases, "junk-", i), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("junk-", i), Labels: map[string]string{presence.Label: "op"}}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &long}})
	}
	list, err := r.Leases(t.Context(), "ns")
	if err != nil || len(list.Items) != 12 {
		t.Fatalf("%d are listed, %v", len(list.Items), err)
	}
	if n := len(apitest.Marshal(list.Items)); n > 12*(24<<10) {
		t.Errorf("%d bytes are kept", n)
	}
	all, err := r.Elections(t.Context(), "ns")
	i := slices.IndexFunc(all, func(e inspect.Election) bool { return e.Name == "op" })
	if err != nil || i < 0 || all[i].Leader() == nil || len(all[i].Candidates) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	one, err := r.Lock(t.Context(), key)
	if err != nil || one.Leader().Identity != record.Identity(long) || one.RenewedSince(all[i]) {
		t.Errorf("the leader is %.100q, %v", one.Leader().Identity, err)
	}
}
