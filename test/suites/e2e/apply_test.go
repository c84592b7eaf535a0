// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/test/kit/manifests"
)

// warnings are those of the API server.
type warnings []string

func (w *warnings) HandleWarningHeader(_ int, _, text string) { *w = append(*w, text) }

// TestAllOfConfigIsAdmitted applies all of config/ to a real API server, and checks
// the result.
func TestAllOfConfigIsAdmitted(t *testing.T) {
	g := ownGround(t, plain)
	all := kustomizations(t)
	var heard warnings
	cfg := g.Cluster.RESTConfig("za")
	cfg.WarningHandler = &heard
	before := g.systemFlows(t)
	names := slices.Sorted(maps.Keys(all))
	slices.SortStableFunc(names, func(a, b string) int {
		return strings.Compare(fmt.Sprint(a != "base"), fmt.Sprint(b != "base"))
	}) // it contains the namespace
	for _, name := range names {
		apply(t, cfg, all[name])
	}
	apply(t, cfg, manifests.Kustomize(t, "../../../examples/another-name"))
	if len(heard) > 0 {
		t.Errorf("the API server warns: %q", heard)
	}
	t.Run("the pods of all bases are restricted", func(t *testing.T) { podsAreRestricted(t, g.client) })
	t.Run("renewals have a level of their own", func(t *testing.T) { g.leasesFlow(t, before) })
}

// podsAreRestricted creates a pod of each Deployment of config/ and examples/ as a dry run, where the Pod
// Security Standard "restricted" is enforced.
func podsAreRestricted(t *testing.T, client kubernetes.Interface) {
	makeNamespace(t, client, metav1.ObjectMeta{
		Name: "restricted", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	})
	admit := func(name string, spec corev1.PodSpec) error {
		spec.ServiceAccountName = ""
		_, err := client.CoreV1().Pods("restricted").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec},
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	err := admit("plain", corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "PodSecurity") {
		t.Fatalf("the standard is not enforced: %v", err)
	}
	found := 0
	for _, pattern := range []string{"config/*/*", "examples/*", "examples/*/*"} {
		dirs, err := filepath.Glob("../../../" + pattern + "/kustomization.yaml")
		must(t, err)
		for _, dir := range dirs {
			if dir = filepath.Dir(dir); dir == "../../../config/operator/name" {
				continue
			}
			for _, d := range manifests.Pick[appsv1.Deployment](t, manifests.Kustomize(t, dir), "Deployment") {
				found++
				if err := admit(d.Name, d.Spec.Template.Spec); err != nil {
					t.Errorf("%s: %v", dir, err)
				}
			}
		}
	}
	if found < 6 { // base, probes, mode-auto, and the examples
		t.Errorf("only %d Deployments were found", found)
	}
}

// leasesFlow checks which FlowSchema classifies requests.
func (g *ground) leasesFlow(t *testing.T, before [2]types.UID) {
	schema, err := g.client.FlowcontrolV1().FlowSchemas().Get(t.Context(), "operator-leases", metav1.GetOptions{})
	must(t, err)
	for _, request := range []string{"leases/lock", "leases?watch=1"} {
		until(t, "an operator's request for "+request+" is classified to its FlowSchema", func() bool {
			return g.flowOf(t, appliedNamespace, request) == schema.UID
		})
	}
	if now := g.systemFlows(t); now != before {
		t.Errorf("requests of kube-system for leases were classified to %s, and are to %s", before, now)
	}
	for _, c := range schema.Status.Conditions {
		if c.Type == flowcontrolv1.FlowSchemaConditionDangling && c.Status == flowcontrolv1.ConditionTrue {
			t.Errorf("the FlowSchema dangles: %s", c.Message)
		}
	}
}

// systemFlows returns the FlowSchemas that classify kube-system's own requests.
func (g *ground) systemFlows(t *testing.T) [2]types.UID {
	t.Helper()
	return [2]types.UID{g.flowOf(t, "kube-system", "leases/lock"), g.flowOf(t, "kube-system", "leases?watch=1")}
}

// flowOf returns the FlowSchema that classifies a service account's request for
// leases of its namespace. The account has no permission for the request, but
// the API server classifies before it authorizes.
func (g *ground) flowOf(t *testing.T, namespace, request string) types.UID {
	t.Helper()
	cfg := g.Cluster.RESTConfig("za")
	cfg.Impersonate.UserName = userName(serviceAccount(namespace, "nobody"))
	client, err := rest.HTTPClientFor(cfg)
	must(t, err)
	answer, err := client.Get(cfg.Host + "/apis/coordination.k8s.io/v1/namespaces/" + namespace + "/" + request)
	must(t, err)
	must(t, answer.Body.Close())
	return types.UID(answer.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID))
}
