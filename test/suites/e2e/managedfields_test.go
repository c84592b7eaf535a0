// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// TestTheAPIServerKeepsNoManagedFieldsOfALock, of a lock that renews itself and of one that a
// heartbeat keeps, until somebody applies a label to it. Then the label belongs to whoever applied
// it, and goes when the next apply leaves it out.
func TestTheAPIServerKeepsNoManagedFieldsOfALock(t *testing.T) {
	b := trial.Bed(t, testbed.Config{Zones: []string{"za"}, Network: testbed.Links, WithoutControllers: true, WithoutNodes: true})
	ctx := patience(t, 2*time.Minute)
	client, err := kubernetes.NewForConfig(b.Cluster.RESTConfig("za"))
	must(t, err)
	leases := client.CoordinationV1().Leases("default")
	until := func(name, what string, is func(*coordinationv1.Lease) bool) {
		t.Helper()
		for {
			lease, err := leases.Get(ctx, name, metav1.GetOptions{})
			must(t, err)
			if is(lease) {
				return
			}
			if ctx.Err() != nil {
				t.Fatalf("%s: %s: %+v", name, what, lease)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	apply := func(name, labels string) {
		t.Helper()
		body := `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"` + name + `","labels":` + labels + `}}`
		_, err := leases.Patch(ctx, name, types.ApplyPatchType, []byte(body), metav1.PatchOptions{FieldManager: "gitops"})
		must(t, err)
	}
	renewed := func(name string) {
		t.Helper()
		lease, err := leases.Get(ctx, name, metav1.GetOptions{})
		must(t, err)
		until(name, "it is not renewed", func(now *coordinationv1.Lease) bool {
			return now.Spec.RenewTime.Sub(lease.Spec.RenewTime.Time) > 4*time.Second
		})
	}
	applied := func(f metav1.ManagedFieldsEntry) bool { return f.Manager == "gitops" }

	_, err = trial.Start(t.Context(), b, trial.Zonelect, "za", "alone", "a")
	must(t, err)
	s, err := trial.Start(t.Context(), b, trial.Zonelect, "za", "kept", "b", "--locks", "2", "--heartbeat")
	must(t, err)
	_, err = s.Await(ctx, "leading", time.Time{})
	must(t, err)
	heart := ""
	for heart == "" {
		list, err := leases.List(ctx, metav1.ListOptions{LabelSelector: "zonelect.dev/role=heartbeat"})
		must(t, err)
		if len(list.Items) > 0 {
			heart = list.Items[0].Name
		}
	}
	for _, name := range []string{"alone", "kept-0", heart} {
		until(name, "it has managed fields", func(l *coordinationv1.Lease) bool { return len(l.ManagedFields) == 0 })
	}

	for _, name := range []string{"alone", heart} {
		apply(name, `{"team":"a"}`)
		renewed(name)
		until(name, "the label is not there, or nobody's", func(l *coordinationv1.Lease) bool {
			return l.Labels["team"] == "a" && slices.ContainsFunc(l.ManagedFields, applied)
		})
		apply(name, `{}`)
		until(name, "the label that is applied no more is there", func(l *coordinationv1.Lease) bool { return l.Labels["team"] == "" })
	}
}
