// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"maps"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/zonelect/zonelect/internal/apitest"
)

// bare makes a cluster without a fault in which nothing is installed.
func (w *world) bare() {
	for _, zone := range []string{"za", "zb", "zc"} {
		w.hosts("any-"+zone, zone)
	}
	w.serves("default", "kubernetes", "10.0.0.1", "10.0.0.2", "10.0.0.3")
}

// TestDoctorSaysWhatStandsInTheWayOfAnInstallation, in set-ups that differ from a good one in one
// respect, and changes nothing.
func TestDoctorSaysWhatStandsInTheWayOfAnInstallation(t *testing.T) {
	for name, tc := range map[string]struct {
		breaks func(w *world)
		want   string // the beginning of a line, with single spaces
		code   int
	}{
		"healthy": {func(*world) {}, "ok install you may grant what the candidates need: a trial of the Role was accepted", exitOK},
		"taken": {func(w *world) {
			w.putLease(newLease("op", "op-a_1", "za"))
		}, "warning name there is a Lease op already, of op-a_1: candidates of both take part in one election", exitOK},
		"left": {func(w *world) {
			w.putLease(newLease("op", "", "za"))
		}, "warning name there is a Lease op already, of nobody", exitOK},
		"ancient": {func(w *world) { w.version = "v1.20.9" }, "problem version Kubernetes 1.20 is older than 1.21", exitError},
		"old":     {func(w *world) { w.version = "v1.29.14" }, "warning version Kubernetes 1.29: the token of a pod does not name its node", exitOK},
		"without-labels": {func(w *world) {
			w.version = "v1.34.4"
		}, "note version Kubernetes 1.34: a pod does not have the label of its zone", exitOK},
		"one-zone": {func(w *world) {
			w.server.Delete("/api/v1/nodes/node-zb")
			w.server.Delete("/api/v1/nodes/node-zc")
		}, "note zones all nodes that have a zone are in za", exitOK},
		"no-zone": {func(w *world) {
			for _, zone := range []string{"za", "zb", "zc"} {
				w.hosts("any-"+zone, zone, func(_ *corev1.Pod, n *corev1.Node) { n.Labels = nil })
			}
		}, "note zones no node has the label topology.kubernetes.io/zone", exitOK},
		"some-outside": {func(w *world) {
			w.hosts("any-zd", "zd", func(_ *corev1.Pod, n *corev1.Node) { n.Labels = nil })
		}, "warning zones some nodes have no label topology.kubernetes.io/zone", exitOK},
		"may-not-grant": {func(w *world) {
			w.answers("create /apis/rbac.authorization.k8s.io/v1/namespaces/ns/roles", apitest.Forbidden)
		}, "warning install a trial of granting the rights of the candidates, which changes nothing, was refused: role ns/zonelect-lease-default: create: needs verb", exitOK},
		"may-not-bind": {func(w *world) {
			w.denied = true
		}, "warning install a trial of granting the rights of the candidates, which changes nothing, was refused: you may not create rolebindings in namespace ns", exitOK},
		"granted": {func(w *world) {
			w.server.Put("/apis/rbac.authorization.k8s.io/v1/namespaces/ns/roles/zonelect-lease-default", apitest.Object{"metadata": apitest.Object{"name": "zonelect-lease-default", "namespace": "ns"}})
		}, "ok install you may grant", exitOK},
		"not-granted": {func(w *world) {
			w.lacks = map[string]bool{"update leases": true, "watch leases": true}
		}, "note rights service account default may not yet update leases.coordination.k8s.io/op, watch leases.coordination.k8s.io/op", exitOK},
		"refused": {func(w *world) {
			w.answers("create "+leasesPath[:len(leasesPath)-1], func(string, string) (int, apitest.Object) {
				return http.StatusForbidden, apitest.Status(http.StatusForbidden, "Forbidden", `leases.coordination.k8s.io "op" is forbidden: ValidatingAdmissionPolicy 'no-leases' denied request`, "leases", "op")
			})
		}, "warning latency a trial write of a Lease, which changes nothing, was refused", exitOK},
		"used-up": {func(w *world) { w.limits("count/leases.coordination.k8s.io") }, "problem quotas quota objects allows 4 Leases, and all are used: the lock cannot be created", exitError},
		"no-namespace": {func(w *world) {
			w.server.Delete("/api/v1/namespaces/ns")
		}, "warning name namespace ns does not exist", exitOK},
		"unknown-version": {func(w *world) { w.version = "x" }, "note install whether you may grant what the candidates need is not known", exitOK},
		"nothing-permitted": {func(w *world) {
			w.answers("", apitest.Forbidden)
			w.denied = true
		}, "note zones in which zones there are nodes is not known", exitOK},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				w.bare()
				tc.breaks(w)
				tried := 0
				w.server.Admitting = func(r *http.Request) bool {
					if tried++; r.URL.Query().Get("dryRun") != metav1.DryRunAll {
						t.Errorf("doctor writes: %s %s", r.Method, r.URL)
					}
					return true
				}
				before := maps.Clone(w.server.Objects)
				r := w.run("doctor", "--pre", "op")
				golden(t, "doctor-pre-"+name, r)
				if r.code != tc.code || !saysLine(r.out, tc.want) {
					t.Errorf("exit code %d, want %d and %q:\n%s%s", r.code, tc.code, tc.want, r.out, r.errors)
				}
				if !maps.EqualFunc(before, w.server.Objects, func(a, b apitest.Object) bool { return reflect.DeepEqual(a, b) }) {
					t.Error("something has changed")
				}
				if name == "healthy" && tried != 1+samples { // the Role, and the Lease
					t.Errorf("%d writes were tried", tried)
				}
			})
		})
	}
}

func TestDoctorRefusesWhatItCannotLookForBeforeAnInstallation(t *testing.T) {
	for line, want := range map[string]string{
		"doctor --pre":                        "--pre needs the name that the lock will have",
		"doctor --service-account=a op":       "--service-account is for --pre",
		"doctor --pre Op":                     `LOCK "Op"`,
		"doctor --pre op --service-account=A": `--service-account "A"`,
		"doctor --pre op --legacy-name=x":     "--legacy-name is for a lock that is there",
	} {
		inABubble(t, func(t *testing.T, w *world) {
			if r := w.run(strings.Fields(line)...); r.code == exitOK || !strings.Contains(r.errors, want) {
				t.Errorf("%s: exit code %d, want %q: %s%s", line, r.code, want, r.out, r.errors)
			}
		})
	}
}

// TestTheTrialIsOfTheRoleOfConfig for the lock that it names.
func TestTheTrialIsOfTheRoleOfConfig(t *testing.T) {
	raw, err := os.ReadFile("../../../config/operator/lease/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(raw), "\n---\n")
	var want rbacv1.Role
	if err := yaml.Unmarshal([]byte(first), &want); err != nil {
		t.Fatal(err)
	}
	if got := candidatesRole("ns", "op", "my-operator"); !reflect.DeepEqual(got.Rules, want.Rules) || got.Name != want.Name+"-op" {
		t.Errorf("%s has the rules %+v, and config %+v", got.Name, got.Rules, want.Rules)
	}
}
