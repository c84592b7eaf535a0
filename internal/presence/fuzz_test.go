// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package presence

import (
	"encoding/json"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/record"
)

// FuzzAmong reads any JSON that decodes as a Lease. A presence belongs to exactly one pod and
// has the name of that pod's presence, or to nobody and was renewed. Its texts are bounded, and it
// reads the same after it was written.
func FuzzAmong(f *testing.F) {
	pod := Pod{Name: "op-1", UID: "u1"}
	whole := Object{
		Lock: "op", Pod: pod, Identity: "op-1_u1", Zone: "za", Node: "n1",
		Mode: "auto", Waiting: "for b", Unhealthy: "ill",
	}
	lease := whole.written(&coordinationv1.Lease{})
	lease.Name, lease.ResourceVersion = Object{Lock: "op", Pod: pod}.name(), "7"
	good := apitest.Marshal(lease)
	alone := Object{Lock: "op", Identity: "laptop_1", Mode: Alone, Renewed: 1e9}
	lease = alone.written(&coordinationv1.Lease{})
	lease.Name = alone.name()
	f.Add(apitest.Marshal(lease), "op")
	f.Add(good, "op")
	f.Add(good, "other")
	f.Add([]byte(`{"metadata":{"labels":{"zonelect.dev/lock":"op"},"ownerReferences":[{"kind":"Pod","apiVersion":"v1"}]}}`), "op")
	f.Add([]byte(`{"metadata":{"name":"op.x","labels":{"zonelect.dev/lock":"op"},`+
		`"ownerReferences":[{"kind":"Pod","apiVersion":"v1","name":"x","uid":"u"},{}]}}`), "op")
	f.Fuzz(func(t *testing.T, b []byte, lock string) {
		var lease coordinationv1.Lease
		if json.Unmarshal(b, &lease) != nil {
			t.Skip("no lease")
		}
		for _, o := range Among([]coordinationv1.Lease{lease}, lock) {
			owners := lease.OwnerReferences
			owned := len(owners) == 1 && owners[0].Kind == "Pod" && owners[0].UID == o.Pod.UID && o.Pod.UID != ""
			renewed := len(owners) == 0 && o.Pod == (Pod{}) && o.Renewed != 0 && o.Identity != ""
			if !owned && !renewed || lease.Name != o.name() {
				t.Fatalf("%+v is not a presence of %+v", lease.ObjectMeta, o.Pod)
			}
			for _, text := range o.annotations() {
				if len(*text) > record.MaxText || len(o.Identity) > record.MaxText {
					t.Fatalf("%d bytes were read", max(len(*text), len(o.Identity)))
				}
			}
			if again := read(o.written(&lease), lock); again != o {
				t.Fatalf("read %+v\nthen %+v", o, again)
			}
			if len(peers([]Object{o, o})) > 1 {
				t.Fatalf("%+v is two peers", o)
			}
		}
	})
}
