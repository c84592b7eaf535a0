// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"os"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// prose reads a file of the repository as one line of prose.
func prose(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(strings.ReplaceAll(string(raw), "\n//", "\n")), " ")
}

func TestThePackageSaysTheVerbsThatTheRoleHas(t *testing.T) {
	raw, err := os.ReadFile("../config/operator/lease/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.Role
	if err := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096).Decode(&role); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, rule := range role.Rules {
		verbs := rule.Verbs[len(rule.Verbs)-1]
		if rest := rule.Verbs[:len(rule.Verbs)-1]; len(rest) > 0 {
			verbs = strings.Join(rest, ", ") + " and " + verbs
		}
		all = append(all, verbs+" on "+strings.Join(rule.Resources, " and "))
	}
	want := "a Role that allows " + strings.Join(all, ", and ") + ";"
	if len(all) == 0 || !strings.Contains(prose(t, "doc.go"), want) {
		t.Errorf("doc.go does not say %q", want)
	}
}
