// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

// TestEachGroupHasTheRightsOfItsOwnLock: those of config/operator are for a sample's lock.
func TestEachGroupHasTheRightsOfItsOwnLock(t *testing.T) {
	root, err := testbed.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range newGroups(&stage{}) {
		reads := false
		for _, name := range g.roles {
			rules, err := rulesOf(filepath.Join(root, "config", "operator", name, "role.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range g.renamed(rules) {
				if slices.ContainsFunc(r.ResourceNames, func(name string) bool { return strings.HasPrefix(name, sampleLock) }) {
					t.Errorf("group %s may %v %v of %v", g.name, r.Verbs, r.Resources, r.ResourceNames)
				}
				own := slices.Contains(r.ResourceNames, g.name)
				reads = reads || slices.Contains(r.Resources, "configmaps") && slices.Contains(r.Verbs, "get") && own
			}
		}
		if !reads {
			t.Errorf("group %s may not read its legacy lock", g.name)
		}
	}
}
