// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

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
		{[]string{"locks/ownerref"}, []string{"leader-for-life", "dead-nodes"}},
		{[]string{"internal/presence"}, []string{"pod"}},
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
			if !given[p] {
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
