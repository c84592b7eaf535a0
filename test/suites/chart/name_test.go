// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/zonelect/zonelect/test/kit/manifests"
)

// renamed builds bases of config under another name, in another namespace.
func renamed(t *testing.T, name, namespace string, bases ...string) manifests.Objects {
	t.Helper()
	root := copied(t, map[string]string{"config": config})
	overlay := "namespace: \"" + namespace + "\"\ntransformers: [../config/name]\nresources:\n"
	for _, base := range bases {
		overlay += "- ../config/" + base + "\n"
	}
	overlay += `
configMapGenerator:
- name: operator
  literals: ["name=` + name + `", "lock=` + name + `"]
  options: {annotations: {config.kubernetes.io/local-config: "true"}}
images:
- {name: example.com/my-operator, newName: example.com/image, newTag: v7}
`
	dir := filepath.Join(root, "mine")
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(overlay), 0o600))
	return manifests.Kustomize(t, dir)
}

// allBases are those that can be applied together.
var allBases = []string{"migration", "annotation", "heartbeat", "leader-service"}

// TestANameReplacesMyOperatorEverywhere: as one parameter, in each base.
func TestANameReplacesMyOperatorEverywhere(t *testing.T) {
	all := renamed(t, "billing-v2", "invoices", allBases...)
	for _, o := range all {
		raw, err := o.MarshalJSON()
		must(t, err)
		if strings.Contains(string(raw), "my-operator") {
			t.Errorf("my-operator is left: %s", raw)
		}
		namespace := "invoices"
		switch kind := o.GetKind(); {
		case kind == "Namespace" || strings.HasPrefix(kind, "Cluster"):
			namespace = ""
		case strings.HasPrefix(o.GetName(), "zonelect-heartbeats"):
			namespace = corev1.NamespaceNodeLease
		}
		if o.GetNamespace() != namespace {
			t.Errorf("%s %s is in namespace %q, want %q", o.GetKind(), o.GetName(), o.GetNamespace(), namespace)
		}
	}
	bindingsAreOf(t, all, "billing-v2", "invoices")
	before := manifests.Kustomize(t, filepath.Join(config, "migration"))
	if want := len(before) + 7; len(all) != want { // a Role and a binding of each of three bases, and a Service
		t.Errorf("there are %d objects, want %d", len(all), want)
	}
	d := one[appsv1.Deployment](t, all, "Deployment")
	if d.Name != "billing-v2" || d.Spec.Template.Spec.ServiceAccountName != "billing-v2" || d.Spec.Template.Labels["app"] != "billing-v2" {
		t.Errorf("the Deployment is %s", text(d))
	}
	service := one[corev1.Service](t, all, "Service").Name
	for _, role := range manifests.Pick[rbacv1.Role](t, all, "Role") {
		if !strings.HasPrefix(role.Name, "zonelect-leader-service") {
			continue
		}
		if a, b := role.Rules[0].ResourceNames, role.Rules[2].ResourceNames; service != "billing-v2-leader" || a[0] != service || b[0] != service+"-zonelect" {
			t.Errorf("the Service is %s, and the Role is for %q and %q", service, a, b)
		}
	}
}

// TestOperatorsOfOtherNamesShareNoObject, in one namespace and in two.
func TestOperatorsOfOtherNamesShareNoObject(t *testing.T) {
	seen := map[string]bool{}
	for _, of := range [][2]string{{"a", "x"}, {"b", "x"}, {"a", "y"}} {
		for _, o := range renamed(t, of[0], of[1], allBases...) {
			id := fmt.Sprint(o.GetKind(), " ", o.GetNamespace(), "/", o.GetName())
			if seen[id] && o.GetKind() != "Namespace" {
				t.Errorf("%v shares %s", of, id)
			}
			seen[id] = true
		}
	}
}

// TestEveryBaseIsRenamed: a new one must come to config/name, and to these tests.
func TestEveryBaseIsRenamed(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(config, "*", "kustomization.yaml"))
	must(t, err)
	have := map[string]bool{}
	for _, base := range allBases {
		for _, o := range manifests.Kustomize(t, filepath.Join(config, base)) {
			have[o.GetKind()+" "+o.GetName()] = true
		}
	}
	for _, file := range files {
		base := filepath.Base(filepath.Dir(file))
		if base == "name" {
			continue
		}
		for _, o := range manifests.Kustomize(t, filepath.Dir(file)) {
			raw, err := o.MarshalJSON()
			must(t, err)
			if id := o.GetKind() + " " + o.GetName(); !have[id] && strings.Contains(string(raw), "my-operator") {
				t.Errorf("config/%s has %s, which none of %q has", base, id, allBases)
			}
		}
	}
}

// TestTheExamplesOverlayIsConfigUnderItsName: examples/another-name is what people copy.
func TestTheExamplesOverlayIsConfigUnderItsName(t *testing.T) {
	all := manifests.Kustomize(t, "../../../examples/another-name")
	if want := len(manifests.Kustomize(t, filepath.Join(config, "operator"))); len(all) != want {
		t.Errorf("there are %d objects, want %d", len(all), want)
	}
	for _, o := range all {
		if raw, err := o.MarshalJSON(); err != nil || strings.Contains(string(raw), "my-operator") {
			t.Errorf("%v: my-operator is left: %s", err, raw)
		}
	}
	bindingsAreOf(t, all, "billing", "invoices")
	for _, role := range manifests.Pick[rbacv1.Role](t, all, "Role") {
		for _, r := range role.Rules {
			if names := r.ResourceNames; len(names) > 0 && !slices.Equal(names, []string{"billing-lock"}) {
				t.Errorf("%s names %q, and the lock is billing-lock", role.Name, names)
			}
		}
	}
}
