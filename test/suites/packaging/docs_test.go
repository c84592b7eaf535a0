// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/zonelect/zonelect/test/kit/manifests"
)

// block returns the block of YAML of docs/install.md that begins with a line.
func block(t *testing.T, first string) string {
	t.Helper()
	raw, err := os.ReadFile("../../../docs/install.md")
	must(t, err)
	_, after, found := strings.Cut(string(raw), "```yaml\n"+first+"\n")
	if !found {
		t.Fatalf("docs/install.md has no block that begins with %q", first)
	}
	text, _, _ := strings.Cut(after, "```\n")
	return first + "\n" + text
}

func TestTheDocsShowTheExamplesOverlay(t *testing.T) {
	raw, err := os.ReadFile("../../../examples/another-name/kustomization.yaml")
	must(t, err)
	if shown := block(t, "namespace: invoices"); !strings.HasSuffix(string(raw), "\n"+shown) {
		t.Errorf("docs/install.md shows\n%s\nand the example is\n%s", shown, raw)
	}
}

// TestTheRulesForOLMAreThoseOfConfig: of config/operator/base.
func TestTheRulesForOLMAreThoseOfConfig(t *testing.T) {
	type granted struct {
		ServiceAccountName string              `json:"serviceAccountName"`
		Rules              []rbacv1.PolicyRule `json:"rules"`
	}
	var csv struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Spec       struct {
			Install struct {
				Strategy string `json:"strategy"`
				Spec     struct {
					Permissions        []granted `json:"permissions"`
					ClusterPermissions []granted `json:"clusterPermissions"`
				} `json:"spec"`
			} `json:"install"`
		} `json:"spec"`
	}
	must(t, yaml.UnmarshalStrict([]byte(block(t, "apiVersion: operators.coreos.com/v1alpha1")), &csv))
	all := manifests.Kustomize(t, filepath.Join(config, "operator", "base"))
	var own, cluster []rbacv1.PolicyRule
	for _, role := range manifests.Pick[rbacv1.Role](t, all, "Role") {
		own = append(own, role.Rules...)
	}
	for _, role := range manifests.Pick[rbacv1.ClusterRole](t, all, "ClusterRole") {
		cluster = append(cluster, role.Rules...)
	}
	for what, pair := range map[string]struct {
		got  []granted
		want []rbacv1.PolicyRule
	}{"permissions": {csv.Spec.Install.Spec.Permissions, own}, "clusterPermissions": {csv.Spec.Install.Spec.ClusterPermissions, cluster}} {
		want := rules(withoutRepeated(pair.want))
		if len(pair.got) != 1 || pair.got[0].ServiceAccountName != "my-operator" || !slices.Equal(rules(pair.got[0].Rules), want) {
			t.Errorf("%s are %s, and config has %s", what, text(pair.got), want)
		}
	}
}

// withoutRepeated leaves out each rule whose verbs another one of the same resources has, and more.
func withoutRepeated(all []rbacv1.PolicyRule) (rest []rbacv1.PolicyRule) {
	for _, r := range all {
		if !slices.ContainsFunc(all, func(o rbacv1.PolicyRule) bool {
			return len(o.Verbs) > len(r.Verbs) && slices.Equal(o.APIGroups, r.APIGroups) && slices.Equal(o.Resources, r.Resources) &&
				(len(o.ResourceNames) == 0 || slices.Equal(o.ResourceNames, r.ResourceNames)) &&
				!slices.ContainsFunc(r.Verbs, func(verb string) bool { return !slices.Contains(o.Verbs, verb) })
		}) {
			rest = append(rest, r)
		}
	}
	return rest
}

// rules are each as a text, sorted.
func rules(all []rbacv1.PolicyRule) (texts []string) {
	for _, r := range all {
		texts = append(texts, text(r))
	}
	slices.Sort(texts)
	return texts
}

func TestTheNetworkPolicyOfTheDocsIsOneForTheDeployment(t *testing.T) {
	var policy networkingv1.NetworkPolicy
	must(t, yaml.UnmarshalStrict([]byte(block(t, "apiVersion: networking.k8s.io/v1")), &policy))
	all := manifests.Kustomize(t, filepath.Join(config, "operator", "base"))
	for _, o := range all {
		if o.GetKind() == "Deployment" && (policy.Namespace != o.GetNamespace() || text(policy.Spec.PodSelector.MatchLabels) != text(o.GetLabels())) {
			t.Errorf("the policy is for %s in %s, and the Deployment has %s in %s", text(policy.Spec.PodSelector), policy.Namespace, text(o.GetLabels()), o.GetNamespace())
		}
	}
	if len(policy.Spec.Ingress) > 0 || len(policy.Spec.Egress) != 2 || len(policy.Spec.PolicyTypes) != 2 {
		t.Errorf("the policy is %s", text(policy.Spec))
	}
}

// TestTheCommandsOfTheDocsInstallTheChart: each helm install in them renders. The archive of a
// release is the chart ("make packaging DIST=1" compares them).
func TestTheCommandsOfTheDocsInstallTheChart(t *testing.T) {
	command := regexp.MustCompile(`(?m)^ {4}helm install (\S+) (charts/zonelect|https://\S+/zonelect-\S+\.tgz) ((?:.*\\\n)*.*)$`)
	found := 0
	for _, file := range []string{"../../../docs/install.md", filepath.Join(chart, "README.md")} {
		raw, err := os.ReadFile(file)
		must(t, err)
		for _, c := range command.FindAllStringSubmatch(string(raw), -1) {
			found++
			args := strings.Fields(strings.NewReplacer("\\\n", " ", "'", "", "--create-namespace", "").Replace(c[3]))
			if out, err := helm(t, append([]string{"template", c[1], chart}, args...)...); err != nil {
				t.Errorf("%s: %v\n%s", c[0], err, out)
			}
		}
	}
	if found != 4 {
		t.Errorf("%d commands were found", found)
	}
}
