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
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/zonelect/zonelect/test/kit/manifests"
	"github.com/zonelect/zonelect/test/kit/scaffold"
)

// TestAKubebuilderProjectGetsWhatAnElectionNeeds, as config/operator/base has it, by the line that
// docs/adopt-kubebuilder.md names.
func TestAKubebuilderProjectGetsWhatAnElectionNeeds(t *testing.T) {
	for name, webhooks := range scaffold.Variants {
		t.Run(name, func(t *testing.T) { checkScaffold(t, webhooks) })
	}
}

func checkScaffold(t *testing.T, webhooks bool) {
	const line = "components: [https://github.com/zonelect/zonelect//config/kubebuilder?ref=v0.1.0]\n"
	for _, file := range []string{"../../../docs/adopt-kubebuilder.md", "../../../config/kubebuilder/kustomization.yaml"} {
		if page, err := os.ReadFile(file); err != nil || !strings.Contains(string(page), line) {
			t.Errorf("%s does not say to add %q: %v", file, line, err)
		}
	}
	project := scaffold.New(t, webhooks)
	bare := granted(t, manifests.Kustomize(t, filepath.Join(project, "config", "default")))
	apply := scaffold.AddElection(t, project)
	all, base := manifests.Kustomize(t, apply), kustomized(t, "base")
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
		"budget":      {budget(t, all), budget(t, base)},
		"environment": {a.Containers[0].Env, b.Containers[0].Env},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: %s, and config has %s", what, text(pair[0]), text(pair[1]))
		}
	}
	if len(a.Containers) != 1 || !slices.Contains(a.Containers[0].Args, "--leader-elect") {
		t.Errorf("the containers are %s", text(a.Containers))
	}
	want := slices.Sorted(slices.Values(append(granted(t, kustomized(t, "pod")), granted(t, kustomized(t, "zone"))...)))
	got := slices.DeleteFunc(granted(t, all), func(rule string) bool { return slices.Contains(bare, rule) })
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("it grants %s, want %s", got, want)
	}
	ourRoles := slices.DeleteFunc(all, func(o *unstructured.Unstructured) bool { return !strings.Contains(o.GetName(), "zonelect") })
	bindingsAreOf(t, ourRoles, "guestbook-controller-manager", "guestbook-system")
}

// budget is the only PodDisruptionBudget, without its selector, which must select the pods of the only
// Deployment.
func budget(t *testing.T, all manifests.Objects) policyv1.PodDisruptionBudgetSpec {
	t.Helper()
	spec := one[policyv1.PodDisruptionBudget](t, all, "PodDisruptionBudget").Spec
	for key, value := range spec.Selector.MatchLabels {
		if one[appsv1.Deployment](t, all, "Deployment").Spec.Template.Labels[key] != value {
			t.Errorf("the budget is of pods with %s=%s, which these have not", key, value)
		}
	}
	spec.Selector = nil
	return spec
}

// granted are the rules of all Roles, each as a text.
func granted(t *testing.T, all manifests.Objects) (texts []string) {
	t.Helper()
	var rules []rbacv1.PolicyRule
	for _, role := range manifests.Pick[rbacv1.Role](t, all, "Role") {
		rules = append(rules, role.Rules...)
	}
	for _, role := range manifests.Pick[rbacv1.ClusterRole](t, all, "ClusterRole") {
		rules = append(rules, role.Rules...)
	}
	for _, r := range rules {
		texts = append(texts, text(r))
	}
	return texts
}
