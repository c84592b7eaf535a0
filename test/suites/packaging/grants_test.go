// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/zonelect/zonelect/test/kit/manifests"
)

// TestConfigGrantsWhatThePackagesAskFor checks the Roles against the rules in
// the documentation of the packages that use them.
func TestConfigGrantsWhatThePackagesAskFor(t *testing.T) {
	for _, row := range []struct{ dirs, configs []string }{
		{[]string{"locks/lease", "locks/multilock", "internal/phase"}, []string{"lease"}},
		{[]string{"locks/annotation"}, []string{"annotation"}},
		{[]string{"locks/ownerref"}, []string{"leader-for-life", "dead-nodes", "zone"}},
		{[]string{"internal/proof"}, []string{"proof"}},
	} {
		documented, given := map[manifests.Right]bool{}, map[manifests.Right]bool{}
		for _, dir := range row.dirs {
			for _, p := range documentedIn(t, dir) {
				documented[p] = true
			}
		}
		for _, name := range row.configs {
			for _, p := range manifests.Granted(t, kustomized(t, name)) {
				p.Namespace, p.Name = "", "" // the packages do not know the names
				given[p] = true
				if !documented[p] {
					t.Errorf("config/operator/%s grants %s, of which %v say nothing", name, p, row.dirs)
				}
			}
		}
		for p := range documented {
			if p.Resource != "statefulsets" && p.Resource != "daemonsets" && !given[p] {
				t.Errorf("%v need %s, which %v do not grant", row.dirs, p, row.configs)
			}
		}
	}
}

// documentedIn returns the rules in a package's documentation: its indented
// parts.
func documentedIn(t *testing.T, dir string) []manifests.Right {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../../..", dir, "doc.go"), nil, parser.ParseComments)
	must(t, err)
	var all []manifests.Right
	for part := range strings.SplitSeq(file.Doc.Text(), "\n\n") {
		if !strings.HasPrefix(part, "\tapiGroups") {
			continue
		}
		var rule rbacv1.PolicyRule
		must(t, yaml.UnmarshalStrict([]byte(strings.ReplaceAll(part, "\t", "")), &rule))
		all = append(all, manifests.RightsOf("", []rbacv1.PolicyRule{rule})...)
	}
	if len(all) == 0 {
		t.Errorf("%s documents no rules", dir)
	}
	return all
}

// kustomized builds a kustomization for operators.
func kustomized(t *testing.T, name string) manifests.Objects {
	t.Helper()
	return manifests.Kustomize(t, "../../../config/operator/"+name)
}

// TestAnOverlaysNamespaceReachesEveryBinding: a user of the overlay sets the
// namespace in it, and nothing else.
func TestAnOverlaysNamespaceReachesEveryBinding(t *testing.T) {
	root := t.TempDir()
	must(t, os.CopyFS(filepath.Join(root, "config"), os.DirFS("../../../config")))
	must(t, os.Mkdir(filepath.Join(root, "mine"), 0o700))
	must(t, os.WriteFile(filepath.Join(root, "mine", "kustomization.yaml"), []byte("namespace: mine\nresources: [../config/operator/base, ../config/operator/leader-for-life]\n"), 0o600))
	must(t, os.Mkdir(filepath.Join(root, "all"), 0o700))
	said, err := os.ReadFile("../../../config/operator/dead-nodes/kustomization.yaml")
	must(t, err)
	_, patch, _ := strings.Cut(string(said), "#   patches:\n")
	patch, _, _ = strings.Cut(patch, "resources:")
	patch = "patches:\n" + strings.ReplaceAll(patch, "#   ", "")
	must(t, os.WriteFile(filepath.Join(root, "all", "kustomization.yaml"), []byte("resources: [../mine, ../config/operator/dead-nodes]\n"+patch), 0o600))
	all := manifests.Kustomize(t, filepath.Join(root, "all"))
	subjects := func(name string, all []rbacv1.Subject) {
		for _, s := range all {
			if s.Namespace != "mine" {
				t.Errorf("%s binds %s in namespace %q", name, s.Name, s.Namespace)
			}
		}
	}
	for _, o := range manifests.Pick[rbacv1.RoleBinding](t, all, "RoleBinding") {
		subjects(o.Name, o.Subjects)
	}
	for _, o := range manifests.Pick[rbacv1.ClusterRoleBinding](t, all, "ClusterRoleBinding") {
		subjects(o.Name, o.Subjects)
	}
	for _, o := range all {
		namespace := o.GetNamespace()
		if o.GetName() == "zonelect-heartbeats" && namespace == corev1.NamespaceNodeLease {
			continue
		}
		if namespace != "" && namespace != "mine" || o.GetKind() == "Namespace" && o.GetName() != "mine" {
			t.Errorf("%s %s is in namespace %q", o.GetKind(), o.GetName(), namespace)
		}
	}
}
