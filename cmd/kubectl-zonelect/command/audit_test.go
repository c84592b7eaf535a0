// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/audit"
	"github.com/zonelect/zonelect/internal/apitest"
)

// deployed adds pods of a Deployment, one in each zone.
func (w *world) deployed(namespace, name string, zones []string) {
	for i, zone := range zones {
		pod := name + "-5d8f-" + string(rune('a'+i))
		w.hosts(pod, zone)
		w.server.Delete("/api/v1/namespaces/ns/pods/" + pod)
		w.server.Put("/api/v1/namespaces/"+namespace+"/pods/"+pod, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				UID: "uid-1", Labels: map[string]string{"pod-template-hash": "5d8f"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name + "-5d8f", Controller: ptr.To(true)}},
			},
			Spec:   corev1.PodSpec{NodeName: "node-" + zone, Containers: []corev1.Container{{Name: "op"}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		})
	}
}

// elected adds a Lease of client-go's that the first pod of a Deployment holds.
func (w *world) elected(namespace, name string) {
	w.putLease(newLease(name, name+"-5d8f-a_0e5c1a30-0000-4000-8000-000000000000", "", func(l *coordinationv1.Lease) {
		l.Namespace, l.Annotations = namespace, nil
		l.CreationTimestamp = metav1.Now()
		l.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "op", Operation: metav1.ManagedFieldsOperationUpdate, Time: ptr.To(metav1.Now())}}
	}))
}

// keeps renews Leases until the test ends, by the paths of their namespaces.
func (w *world) keeps(every time.Duration, paths ...string) {
	ctx := w.t.Context()
	for _, path := range paths {
		go func() {
			next := time.NewTimer(300 * time.Millisecond) // so that no renewal comes when the watch ends
			defer next.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-next.C:
					next.Reset(every)
					w.server.Change(path, func(o apitest.Object) {
						o["spec"].(apitest.Object)["renewTime"] = time.Now().UTC().Format(metav1.RFC3339Micro)
					})
				}
			}
		}()
	}
}

func leasePath(namespace, name string) string {
	return "/apis/coordination.k8s.io/v1/namespaces/" + namespace + "/leases/" + name
}

// fleet makes a cluster with elections of many kinds.
func (w *world) fleet() {
	three := []string{"za", "zb", "zc"}
	w.deployed("ns", "well", three)
	w.elected("ns", "well")
	w.deployed("ns", "hangs", three)
	w.elected("ns", "hangs")
	w.deployed("other", "slow", three[:2])
	w.elected("other", "slow")
	w.putLease(newLease("ours", "ours-a_1", "za"))
	w.announce("ours", "ours-a", "za", "")
	w.putLease(newLease("node-a", "node-a", "", func(l *coordinationv1.Lease) { l.Namespace = "kube-node-lease" }))
	w.putLease(newLease("apiserver-x", "apiserver-x_1", "", func(l *coordinationv1.Lease) {
		l.Namespace, l.Labels = "kube-system", map[string]string{"apiserver.kubernetes.io/identity": "kube-apiserver"}
	}))
	w.putConfigMap("old", map[string]string{resourcelock.LeaderElectionRecordAnnotationKey: renewedBy("old")})
	w.putConfigMap("for-life", nil, byPod("any-life"))
	w.server.Change(mapsPath+"for-life", func(o apitest.Object) {
		o["metadata"].(apitest.Object)["managedFields"] = []any{apitest.Object{"manager": "sdk-operator", "operation": "Update"}}
	})
	w.hosts("any-life", "zb")
	w.keeps(2*time.Second, leasePath("ns", "well"), leasePath("ns", "ours"))
	w.keeps(9*time.Second, leasePath("other", "slow"))
}

// TestAuditSaysOfEachElectionWhoHoldsIt, in each format, and changes nothing.
func TestAuditSaysOfEachElectionWhoHoldsIt(t *testing.T) {
	for name, args := range map[string]string{
		"audit":            "audit",
		"audit-everywhere": "audit -A --for 16s",
		"audit-json":       "audit -A -o json",
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(w *world) {
				w.fleet()
				w.server.Stored = func(r *http.Request, path string, _, _ apitest.Object) {
					if r != nil {
						t.Errorf("audit writes %s", path)
					}
				}
				golden(t, name, w.run(strings.Fields(args)...))
			})
		})
	}
}

// TestAuditSaysOnceWhatIsMissing: each right, and what is not known without it. A right on Leases is an
// error.
func TestAuditSaysOnceWhatIsMissing(t *testing.T) {
	inABubble(t, func(w *world) {
		w.fleet()
		w.forbid("", "/api/v1/")
		golden(t, "audit-leases-alone", w.run("audit"))
	})
}

// TestTheTimeThatTheSecondLookTakesIsNoTimeOfWatching: a list may take long, and the Lease was read before.
func TestTheTimeThatTheSecondLookTakesIsNoTimeOfWatching(t *testing.T) {
	inABubble(t, func(w *world) {
		w.elected("ns", "op")
		w.server.Before = func(_, path string) (int, apitest.Object) {
			if strings.HasSuffix(path, "/configmaps") {
				time.Sleep(10 * time.Second)
			}
			return 0, nil
		}
		if r := w.run("audit", "--for", "10s"); r.code != 0 || !strings.Contains(r.out, "no renewal was seen in 10s of watching") {
			t.Errorf("exit code %d, and for a lease of 15s: %s", r.code, r.out)
		}
	})
}

// TestASecondLookThatFailsIsAnError: it does not say that there are no elections.
func TestASecondLookThatFailsIsAnError(t *testing.T) {
	inABubble(t, func(w *world) {
		w.elected("ns", "op")
		time.AfterFunc(time.Second, func() { w.forbid("list", "/leases") })
		if r := w.run("audit"); r.code != exitError || !strings.Contains(r.errors, "zonelect-audit") {
			t.Error(r)
		}
	})
}

// TestAThousandLeasesCostNothingButPagesOfLists: Leases, ConfigMaps and Endpoints twice, and the pods, in pages of 500.
func TestAThousandLeasesCostNothingButPagesOfLists(t *testing.T) {
	inABubble(t, func(w *world) {
		for i := range 1000 {
			w.elected(fmt.Sprintf("ns-%d", i%7), fmt.Sprintf("op-%d", i))
		}
		w.putEndpoints("op", renewedBy("old"))
		counts := map[string]int{}
		w.server.Before = func(verb, path string) (int, apitest.Object) {
			counts[verb+" "+path]++
			return 0, nil
		}
		r := w.run("audit", "-A", "-o", "json")
		var got auditReport
		if err := json.Unmarshal([]byte(r.out), &got); err != nil || len(got.Elections) != 1001 || got.Elections[0].Kind != audit.OnEndpoints {
			t.Errorf("exit code %d, %v, %d elections: %s", r.code, err, len(got.Elections), r.errors)
		}
		if len(counts) != 4 || counts["list /apis/coordination.k8s.io/v1/leases"] != 4 || counts["list /api/v1/pods"] != 1 {
			t.Errorf("it asked %v", counts)
		}
	})
}
