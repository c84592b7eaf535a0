// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/zonelect/zonelect/test/kit/manifests"
)

// grants are the rules of all Roles, each with its namespace, sorted.
func grants(t *testing.T, all manifests.Objects) []string {
	t.Helper()
	var rules []string
	for _, role := range manifests.Pick[rbacv1.Role](t, all, "Role") {
		rules = append(rules, role.Namespace+": "+text(role.Rules))
	}
	for _, role := range manifests.Pick[rbacv1.ClusterRole](t, all, "ClusterRole") {
		rules = append(rules, "the cluster: "+text(role.Rules))
	}
	slices.Sort(rules)
	return rules
}

// bindingsAreOf checks that each Role is bound to the service account, and to nobody else.
func bindingsAreOf(t *testing.T, all manifests.Objects, account, namespace string) {
	t.Helper()
	subject := func(name string, subjects []rbacv1.Subject) {
		if len(subjects) != 1 || subjects[0] != (rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: namespace}) {
			t.Errorf("%s binds %+v", name, subjects)
		}
	}
	bound := map[string]bool{}
	for _, b := range manifests.Pick[rbacv1.RoleBinding](t, all, "RoleBinding") {
		subject(b.Name, b.Subjects)
		bound[b.Namespace+"/"+b.RoleRef.Kind+"/"+b.RoleRef.Name] = true
	}
	for _, b := range manifests.Pick[rbacv1.ClusterRoleBinding](t, all, "ClusterRoleBinding") {
		subject(b.Name, b.Subjects)
		bound["/"+b.RoleRef.Kind+"/"+b.RoleRef.Name] = true
	}
	roles := 0
	for _, o := range all {
		if kind := o.GetKind(); kind == "Role" || kind == "ClusterRole" {
			roles++
			if !bound[o.GetNamespace()+"/"+kind+"/"+o.GetName()] {
				t.Errorf("nobody has %s %s", kind, o.GetName())
			}
		}
	}
	if roles == 0 || roles != len(bound) {
		t.Errorf("%d Roles, and %d are bound", roles, len(bound))
	}
}

// TestTheChartGrantsWhatConfigGrants: the rules of the bases that the values call for, and no others.
func TestTheChartGrantsWhatConfigGrants(t *testing.T) {
	always := []string{"lease", "events", "zone", "proof"}
	endpoints := strings.NewReplacer(`"configmaps"`, `"endpoints"`)
	for set, bases := range map[string][]string{
		"":                             always,
		"rights.zone=false":            {"lease", "events", "proof"},
		"rights.events=false":          {"lease", "zone", "proof"},
		"rights.proof=false":           {"lease", "events", "zone"},
		"election.mode=lease":          always,
		"election.resourceLock=leases": always,
		"election.mode=auto":           append([]string{"leader-for-life", "dead-nodes"}, always...),
		"election.mode=dual":           append([]string{"leader-for-life", "dead-nodes"}, always...),
		"election.mode=auto,election.legacyKind=ownerref":                     append([]string{"leader-for-life", "dead-nodes"}, always...),
		"election.mode=auto,election.legacyKind=configmap":                    append([]string{"annotation"}, always...),
		"election.mode=dual,election.legacyKind=endpoints":                    append([]string{"annotation of endpoints"}, always...),
		"election.resourceLock=configmapsleases":                              append([]string{"annotation"}, always...),
		"election.resourceLock=endpointsleases":                               append([]string{"annotation of endpoints"}, always...),
		"election.service=my-operator-leader":                                 append([]string{"leader-service"}, always...),
		"rights.create=false":                                                 nil,
		"election.enabled=false,replicas=1":                                   nil,
		"sidecar.enabled=true,sidecar.form=command,args={x}":                  always,
		"sidecar.enabled=true,sidecar.image.repository=x,sidecar.image.tag=y": {"lease", "events", "zone"},
	} {
		var want []string
		for _, base := range bases {
			name, legacy, _ := strings.Cut(base, " of ")
			rules := grants(t, manifests.Kustomize(t, filepath.Join(config, "operator", name)))
			for _, r := range rules {
				if legacy != "" {
					r = endpoints.Replace(r)
				}
				if base == "zone" || base == "dead-nodes" || strings.HasPrefix(r, "my-operator: ") {
					want = append(want, r)
				}
			}
		}
		slices.Sort(want)
		all := render(t, chart, values(image, "election.resourceName=my-operator", set)...)
		if got := grants(t, all); !slices.Equal(got, want) {
			t.Errorf("%s: the chart grants\n%s\nand config\n%s", set, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if want != nil {
			bindingsAreOf(t, all, "my-operator", "my-operator")
		}
	}
}

// TestTheChartNamesWhatItKnows: a rule is limited to the objects that the values name.
func TestTheChartNamesWhatItKnows(t *testing.T) {
	for set, want := range map[string]map[string]string{
		"election.mode=auto":                                                      {},
		"election.mode=auto,election.resourceName=a":                              {"configmaps": "a"},
		"election.mode=auto,election.legacyName=b":                                {"configmaps": "b"},
		"election.mode=dual,election.legacyKind=endpoints,election.legacyName=b":  {"endpoints": "b"},
		"sidecar.enabled=true,sidecar.form=command,args={x}":                      {"configmaps": "my-operator"},
		"sidecar.enabled=true,sidecar.form=command,args={x},fullnameOverride=job": {"configmaps": "job"},
	} {
		got := map[string]string{}
		for _, role := range manifests.Pick[rbacv1.Role](t, render(t, chart, values(image, set)...), "Role") {
			for _, r := range role.Rules {
				if len(r.ResourceNames) > 0 {
					got[r.Resources[0]] = strings.Join(r.ResourceNames, ",")
				}
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: the rules name %v, want %v", set, got, want)
		}
	}
}

// TestALockElsewhereIsGrantedThere: and there is no proof of death, because pods are read beside
// their lock.
func TestALockElsewhereIsGrantedThere(t *testing.T) {
	all := render(t, chart, values(image, "election.resourceNamespace=locks")...)
	in := map[string]string{}
	for _, role := range manifests.Pick[rbacv1.Role](t, all, "Role") {
		in[role.Name] = role.Namespace
	}
	if len(in) != 2 || in["my-operator-lease"] != "locks" || in["my-operator-events"] != "locks" {
		t.Errorf("the Roles are in %v", in)
	}
	bindingsAreOf(t, all, "my-operator", "my-operator")
}

func TestTheFlowSchemaIsThatOfConfig(t *testing.T) {
	got, want := render(t, chart, values(image, "flowControl.create=true")...), manifests.Kustomize(t, filepath.Join(config, "cluster", "flowcontrol"))
	a, b := one[flowcontrolv1.FlowSchema](t, got, "FlowSchema"), one[flowcontrolv1.FlowSchema](t, want, "FlowSchema")
	if a.Name != b.Name || text(a.Spec) != text(b.Spec) {
		t.Errorf("the chart has\n%s %s\nand config\n%s %s", a.Name, text(a.Spec), b.Name, text(b.Spec))
	}
	x, y := one[flowcontrolv1.PriorityLevelConfiguration](t, got, "PriorityLevelConfiguration"), one[flowcontrolv1.PriorityLevelConfiguration](t, want, "PriorityLevelConfiguration")
	if x.Name != y.Name || text(x.Spec) != text(y.Spec) {
		t.Errorf("the chart has\n%s %s\nand config\n%s %s", x.Name, text(x.Spec), y.Name, text(y.Spec))
	}
}
