// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/operator"
)

// inPod is a program in a pod that knows its node and its container.
func inPod(ctx context.Context, cfg *rest.Config, timing election.Timing, namespace, name, identity string, lead func(context.Context)) error {
	return operator.Run(ctx, name, func(ctx context.Context, _ election.Term) error {
		lead(ctx)
		return nil
	}, operator.Options{
		Config: cfg, Timing: timing, Namespace: namespace,
		Self:   operator.SelfOptions{Identity: identity, PodName: identity, PodUID: "uid-" + identity, Namespace: namespace, Node: "node", Container: "main"},
		Logger: logr.FromSlogHandler(slog.DiscardHandler),
	})
}

// TestWhatIsBesideTheLockComesBehindASlowServerToo: the zone, the presences and
// the container are asked for with as much patience as the lock, and delay it by no more than
// their answers.
func TestWhatIsBesideTheLockComesBehindASlowServerToo(t *testing.T) {
	for _, p := range places {
		for _, timing := range timings {
			t.Run(fmt.Sprint(p, " ", seconds3(timing)), func(t *testing.T) {
				w := weather{place: p, shape: constant, delay: 3 * time.Second}
				behind(t, w, func(api *apitest.Server, cfg *rest.Config) {
					api.Put("/api/v1/nodes/node", apitest.Object{"kind": "Node", "apiVersion": "v1", "metadata": apitest.Object{
						"name": "node", "labels": apitest.Object{"topology.kubernetes.io/zone": "z"},
					}})
					for i := range candidates {
						name := fmt.Sprint("candidate-", i)
						api.Put("/api/v1/namespaces/default/pods/"+name, apitest.Object{
							"kind": "Pod", "apiVersion": "v1", "metadata": apitest.Object{"name": name, "namespace": "default", "uid": "uid-" + name},
							"spec": apitest.Object{"containers": []any{apitest.Object{"name": "main"}}},
							"status": apitest.Object{"containerStatuses": []any{apitest.Object{
								"name": "main", "containerID": "containerd://" + name, "state": apitest.Object{"running": apitest.Object{"startedAt": "2199-01-01T00:00:00Z"}},
							}}},
						})
					}
					r, err := tryOut(inPod, cfg, w, timing, "default", "lock", 3*time.Minute)
					if err != nil {
						t.Fatal(err)
					}
					if r.First > 45*time.Second {
						t.Errorf("the first term begins after %v", r.First)
					}
					api.Mu.Lock()
					defer api.Mu.Unlock()
					slice := api.Objects["/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/leader-zonelect"]
					roomy := timing.RenewDeadline > 6*w.delay // for two dials, a read and a write when the leader leaves
					if slice == nil || roomy && slice["endpoints"] != nil {
						t.Errorf("the Service points to %v", slice["endpoints"])
					}
					presences := 0
					for path, o := range api.Objects {
						notes, _ := o["metadata"].(apitest.Object)["annotations"].(apitest.Object)
						switch _, name, _ := strings.Cut(path, "/leases/"); {
						case strings.HasPrefix(name, "lock."):
							presences++
							if notes["zonelect.dev/zone"] != "z" {
								t.Errorf("the presence says %v", notes)
							}
						case name == "lock":
							if id, _ := notes["zonelect.dev/container-id"].(string); !strings.HasPrefix(id, "containerd://candidate-") || notes["zonelect.dev/zone"] != "z" {
								t.Errorf("the record says %v", notes)
							}
						}
					}
					if presences != candidates {
						t.Errorf("there are %d presences", presences)
					}
				})
			})
		}
	}
}
