// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/zonelect/zonelect/internal/apitest"
)

// TestTheRoleForShiftsIsWhatItsCommandsAskForAndNoMore.
func TestTheRoleForShiftsIsWhatItsCommandsAskForAndNoMore(t *testing.T) {
	raw, err := os.ReadFile("../../config/shift/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.Unmarshal(raw, &role); err != nil {
		t.Fatal(err)
	}
	var granted []string
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				granted = append(granted, verb+" "+resource)
			}
		}
	}
	slices.Sort(granted)
	inABubble(t, func(t *testing.T, w *world) {
		w.operators()
		asked := &asking{to: w, rights: map[string]bool{}}
		for _, line := range []string{"handover alpha", "handover beta --to-zone zc", "evacuate za", "restore za"} {
			if code := asked.run(strings.Fields(line)...); code != exitOK {
				t.Errorf("%s ends with %d", line, code)
			}
		}
		if got := slices.Sorted(maps.Keys(asked.rights)); !slices.Equal(got, granted) {
			t.Errorf("granted are %q\nasked for  %q", granted, got)
		}
	})
}

// asking notes what rights the plugin's requests need.
type asking struct {
	to     *world
	mu     sync.Mutex
	rights map[string]bool
}

func (a *asking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	named := slices.Contains([]string{"leases", "pods", "nodes"}, parts[max(0, len(parts)-2)])
	verb, resource := map[string]string{http.MethodGet: "list", http.MethodPut: "update", http.MethodPost: "create", http.MethodDelete: "delete"}[r.Method], parts[len(parts)-1]
	if named {
		resource = parts[len(parts)-2]
	}
	switch {
	case r.URL.Query().Get("watch") == "true":
		verb = "watch"
	case named && r.Method == http.MethodGet:
		verb = "get"
	}
	a.mu.Lock()
	a.rights[verb+" "+resource] = true
	a.mu.Unlock()
	a.to.ServeHTTP(w, r)
}

// run runs a command, and returns the exit code.
func (a *asking) run(args ...string) int {
	env := newEnvironment(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &buffer{}, ErrOut: &buffer{}})
	env.terminal = func() bool { return false }
	env.connect = func() (clients, error) {
		return clients{
			core:         apitest.Wire(a.to.t, a, corev1.SchemeGroupVersion),
			coordination: apitest.Wire(a.to.t, a, coordinationv1.SchemeGroupVersion),
		}, nil
	}
	env.config.KubeConfig = new("testdata/kubeconfig.yaml")
	return run(a.to.t.Context(), env, args)
}
