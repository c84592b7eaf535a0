// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// TestAnEmbeddedAPIServerOutlivesAZone: what is written through one front end is seen through the
// others, versions are compared, and the front end of a zone without power is gone until the power
// is back.
func TestAnEmbeddedAPIServerOutlivesAZone(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	programs, err := Embedded(ctx)
	must(t, err)
	bed, err := Start(ctx, Config{Programs: programs, Zones: []string{"za", "zb"}, Progress: t.Output()})
	must(t, err)
	defer bed.Close()
	in := func(zone string) coordination.LeaseInterface {
		client, err := kubernetes.NewForConfig(bed.Cluster.RESTConfig(zone))
		must(t, err)
		return client.CoordinationV1().Leases("default")
	}
	events, err := in("zb").Watch(ctx, metav1.ListOptions{})
	must(t, err)
	defer events.Stop()
	stale, err := in("za").Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "lock"}}, metav1.CreateOptions{})
	must(t, err)
	if _, err := in("za").Update(ctx, stale, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	must(t, bed.CutPower(ctx, "za"))
	if _, err := in("zb").Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("an update of an old version: %v", err)
	}
	for _, want := range []string{"ADDED", "MODIFIED"} {
		if e := <-events.ResultChan(); string(e.Type) != want {
			t.Errorf("the watch shows %+v, want %s", e, want)
		}
	}
	dead, soon := context.WithTimeout(ctx, time.Second)
	defer soon()
	if _, err := in("za").Get(dead, "lock", metav1.GetOptions{}); err == nil {
		t.Error("a front end without power answers")
	}
	if err := bed.Parts.Kill(ctx, Etcd, "zb"); err == nil {
		t.Error("an etcd was killed that is not there")
	}
	must(t, bed.Restore(ctx, "za"))
	if _, err := in("za").Get(ctx, "lock", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}
