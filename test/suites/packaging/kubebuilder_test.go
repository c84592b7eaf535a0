// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/zonelect/zonelect/test/kit/manifests"
)

// scaffold is what kubebuilder makes, as far as it matters here.
var scaffold = map[string]string{
	"default/kustomization.yaml": "namespace: op-system\nnamePrefix: op-\nresources: [../manager]\n",
	"manager/kustomization.yaml": "resources: [manager.yaml]\n",
	"manager/manager.yaml": `
apiVersion: v1
kind: ServiceAccount
metadata: {name: controller-manager, namespace: system}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: controller-manager, namespace: system}
spec:
  replicas: 1
  selector:
    matchLabels: {control-plane: controller-manager, app.kubernetes.io/name: op}
  template:
    metadata:
      labels: {control-plane: controller-manager, app.kubernetes.io/name: op}
    spec:
      containers:
      - name: manager
        args: [--leader-elect, "--health-probe-bind-address=:8081"]
      serviceAccountName: controller-manager
      terminationGracePeriodSeconds: 10
`,
}

// TestAKubebuilderProjectGetsWhatAnElectionNeeds: as config/operator/base has it, by the directory and the
// line that docs/adopt.md names.
func TestAKubebuilderProjectGetsWhatAnElectionNeeds(t *testing.T) {
	root := copied(t, map[string]string{"election": "../../../examples/kubebuilder/config/election"})
	const line = "components: [../election]\n"
	if page, err := os.ReadFile("../../../docs/adopt.md"); err != nil || !strings.Contains(string(page), "```yaml\n"+line) {
		t.Errorf("docs/adopt.md does not say to add %q: %v", line, err)
	}
	for name, text := range scaffold {
		if name == "default/kustomization.yaml" {
			text += line
		}
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700))
		must(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	all, base := manifests.Kustomize(t, filepath.Join(root, "default")), manifests.Kustomize(t, filepath.Join(config, "operator", "base"))
	ours, theirs := one[appsv1.Deployment](t, all, "Deployment"), one[appsv1.Deployment](t, base, "Deployment")
	a, b := ours.Spec.Template.Spec, theirs.Spec.Template.Spec
	for i := range a.TopologySpreadConstraints {
		for key, value := range a.TopologySpreadConstraints[i].LabelSelector.MatchLabels {
			if ours.Spec.Template.Labels[key] != value {
				t.Errorf("the spread is over pods with %s=%s, which these have not", key, value)
			}
		}
		a.TopologySpreadConstraints[i].LabelSelector = b.TopologySpreadConstraints[i].LabelSelector
	}
	for what, pair := range map[string][2]any{
		"replicas":    {ours.Spec.Replicas, theirs.Spec.Replicas},
		"grace":       {a.TerminationGracePeriodSeconds, b.TerminationGracePeriodSeconds},
		"spread":      {a.TopologySpreadConstraints, b.TopologySpreadConstraints},
		"environment": {a.Containers[0].Env, b.Containers[0].Env},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: %s, and config has %s", what, text(pair[0]), text(pair[1]))
		}
	}
	if len(a.Containers) != 1 || len(a.Containers[0].Args) != 2 {
		t.Errorf("the containers are %s", text(a.Containers))
	}
	want := append(granted(t, manifests.Kustomize(t, filepath.Join(config, "operator", "proof"))), granted(t, manifests.Kustomize(t, filepath.Join(config, "operator", "zone")))...)
	if got := granted(t, all); !slices.Equal(rules(got), rules(want)) {
		t.Errorf("it grants %s, want %s", text(got), text(want))
	}
	bindingsAreOf(t, all, "op-controller-manager", "op-system")
}

// granted are the rules of all Roles.
func granted(t *testing.T, all manifests.Objects) (rules []rbacv1.PolicyRule) {
	t.Helper()
	for _, role := range manifests.Pick[rbacv1.Role](t, all, "Role") {
		rules = append(rules, role.Rules...)
	}
	for _, role := range manifests.Pick[rbacv1.ClusterRole](t, all, "ClusterRole") {
		rules = append(rules, role.Rules...)
	}
	return rules
}
