// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/operator"
	"github.com/zonelect/zonelect/test/kit/manifests"
)

const config = "../../../config"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func text(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// one returns the only object of a kind.
func one[T any](t *testing.T, all manifests.Objects, kind string) *T {
	t.Helper()
	picked := manifests.Pick[T](t, all, kind)
	if len(picked) != 1 {
		t.Fatalf("there are %d objects of kind %s, want one", len(picked), kind)
	}
	return picked[0]
}

// bindingsAreOf checks that each Role is bound to the service account, and to nobody else.
func bindingsAreOf(t *testing.T, all manifests.Objects, account, namespace string) {
	t.Helper()
	want := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: namespace}}
	bindings := manifests.Pick[rbacv1.RoleBinding](t, all, "RoleBinding")
	for _, b := range manifests.Pick[rbacv1.ClusterRoleBinding](t, all, "ClusterRoleBinding") {
		bindings = append(bindings, &rbacv1.RoleBinding{ObjectMeta: b.ObjectMeta, Subjects: b.Subjects, RoleRef: b.RoleRef})
	}
	bound := map[string]bool{}
	for _, b := range bindings {
		if !slices.Equal(b.Subjects, want) {
			t.Errorf("%s binds %+v", b.Name, b.Subjects)
		}
		bound[b.Namespace+"/"+b.RoleRef.Kind+"/"+b.RoleRef.Name] = true
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

// renamed builds bases of config/operator under another name, in another namespace.
func renamed(t *testing.T, name, namespace string, bases ...string) manifests.Objects {
	t.Helper()
	root := t.TempDir()
	must(t, os.CopyFS(filepath.Join(root, "config"), os.DirFS(config)))
	overlay := "namespace: \"" + namespace + "\"\ntransformers: [../config/operator/name]\nresources:\n"
	for _, base := range bases {
		overlay += "- ../config/operator/" + base + "\n"
	}
	overlay += `
configMapGenerator:
- name: operator
  literals: ["name=` + name + `", "lock=` + name + `-lock"]
  options: {annotations: {config.kubernetes.io/local-config: "true"}}
images:
- {name: example.com/my-operator, newName: example.com/image, newTag: v7}
`
	place{t: t, dir: root}.write("mine/kustomization.yaml", overlay)
	return manifests.Kustomize(t, filepath.Join(root, "mine"))
}

// allBases are those that can be applied together, which is all that have names of an operator.
var allBases = []string{"mode-auto", "annotation"}

// isRenamed checks that nothing in all has the names of config/.
func isRenamed(t *testing.T, all manifests.Objects, name, namespace, lock string) {
	t.Helper()
	for _, o := range all {
		if strings.Contains(text(o), "my-operator") {
			t.Errorf("my-operator is left: %s", text(o))
		}
		in := namespace
		switch kind := o.GetKind(); {
		case kind == "Namespace" || strings.HasPrefix(kind, "Cluster"):
			in = ""
		case strings.HasPrefix(o.GetName(), "zonelect-heartbeats"):
			in = corev1.NamespaceNodeLease
		}
		if o.GetNamespace() != in {
			t.Errorf("%s %s is in namespace %q, want %q", o.GetKind(), o.GetName(), o.GetNamespace(), in)
		}
	}
	bindingsAreOf(t, all, name, namespace)
	for _, role := range manifests.Pick[rbacv1.Role](t, all, "Role") {
		for _, r := range role.Rules {
			if names := r.ResourceNames; len(names) > 0 && !slices.Equal(names, []string{lock}) {
				t.Errorf("%s names %q, and the lock is %s", role.Name, names, lock)
			}
		}
	}
	d := one[appsv1.Deployment](t, all, "Deployment")
	if d.Name != name || d.Spec.Template.Spec.ServiceAccountName != name || d.Spec.Template.Labels["app"] != name {
		t.Errorf("the Deployment is %s", text(d))
	}
}

// TestANameReplacesMyOperatorEverywhere: as one parameter, in each base, and in the example that people copy.
func TestANameReplacesMyOperatorEverywhere(t *testing.T) {
	all := renamed(t, "billing-v2", "invoices", allBases...)
	isRenamed(t, all, "billing-v2", "invoices", "billing-v2-lock")
	if want := len(kustomized(t, "mode-auto")) + 2; len(all) != want { // a Role and a binding
		t.Errorf("there are %d objects, want %d", len(all), want)
	}
	bindingsAreOf(t, renamed(t, "billing-v2", "invoices", "dead-nodes"), "billing-v2", "invoices") // without the account itself
	all = manifests.Kustomize(t, "../../../examples/another-name")
	isRenamed(t, all, "billing", "invoices", "billing-lock")
	if want := len(kustomized(t, "base")); len(all) != want {
		t.Errorf("there are %d objects, want %d", len(all), want)
	}
}

// TestALeaderHasTimeToHandOver before it is killed: its work a StopTimeout, and the release a RenewDeadline.
func TestALeaderHasTimeToHandOver(t *testing.T) {
	d := one[appsv1.Deployment](t, manifests.Kustomize(t, filepath.Join(config, "operator", "base")), "Deployment")
	given, needs := *d.Spec.Template.Spec.TerminationGracePeriodSeconds, timing.Timing{}.WithDefaults()
	if grace := time.Duration(given) * time.Second; grace < needs.StopTimeout+needs.RenewDeadline {
		t.Errorf("it has %v, of which its work may take %v, and the release %v", grace, needs.StopTimeout, needs.RenewDeadline)
	}
}

// TestTheProbesAskWhatAManagerServes: its paths, unless the program gives it others.
func TestTheProbesAskWhatAManagerServes(t *testing.T) {
	c := one[appsv1.Deployment](t, kustomized(t, "probes"), "Deployment").Spec.Template.Spec.Containers[0]
	for path, probe := range map[string]*corev1.Probe{"/healthz": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
		if probe.HTTPGet.Path != path || probe.HTTPGet.Port.StrVal != c.Ports[0].Name {
			t.Errorf("a probe is %s, want %s", text(probe), path)
		}
	}
}

// TestModeAutoIsWhatItsArgumentsSay to package operator.
func TestModeAutoIsWhatItsArgumentsSay(t *testing.T) {
	var o operator.Options
	flags := pflag.NewFlagSet("my-operator", pflag.ContinueOnError)
	o.AddFlags(flags)
	args := one[appsv1.Deployment](t, kustomized(t, "mode-auto"), "Deployment").Spec.Template.Spec.Containers[0].Args
	if err := flags.Parse(args); err != nil || o.Disabled || o.Legacy.Mode != operator.ModeAuto {
		t.Errorf("its arguments %q make of it %+v, %v", args, o, err)
	}
}

// TestEveryBaseIsRenamed: a new one must come to config/operator/name, and to these tests.
func TestEveryBaseIsRenamed(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(config, "*", "*", "kustomization.yaml"))
	must(t, err)
	have := map[string]bool{}
	for _, base := range allBases {
		for _, o := range kustomized(t, base) {
			have[o.GetKind()+" "+o.GetName()] = true
		}
	}
	for _, file := range files {
		base := filepath.Base(filepath.Dir(file))
		if base == "name" {
			continue
		}
		for _, o := range manifests.Kustomize(t, filepath.Dir(file)) {
			if id := o.GetKind() + " " + o.GetName(); !have[id] && strings.Contains(text(o), "my-operator") {
				t.Errorf("config/operator/%s has %s, which none of %q has", base, id, allBases)
			}
		}
	}
}

// TestAnOwnDeploymentNeedsRightsAndAnEnvironmentAlone: the example has the rights of config/operator/mode-auto,
// and no Deployment that a cluster would refuse or run beside the own one. Its patch has what
// config/operator/mode-auto adds to a pod.
func TestAnOwnDeploymentNeedsRightsAndAnEnvironmentAlone(t *testing.T) {
	all := manifests.Kustomize(t, "../../../examples/own-deployment")
	for _, o := range all {
		if strings.Contains(text(o), "my-operator") || !strings.HasPrefix(o.GetAPIVersion(), "rbac.") {
			t.Error(text(o))
		}
	}
	bindingsAreOf(t, all, "memcached-operator-controller-manager", "memcached-operator-system")
	whole := kustomized(t, "mode-auto")
	if want := len(whole) - 4; len(all) != want { // a Namespace, a ServiceAccount, a Deployment and its PodDisruptionBudget
		t.Errorf("there are %d objects, want %d", len(all), want)
	}
	raw, err := os.ReadFile("../../../examples/own-deployment/deployment-patch.yaml")
	must(t, err)
	var patch appsv1.Deployment
	must(t, yaml.Unmarshal(raw, &patch))
	of := one[appsv1.Deployment](t, whole, "Deployment").Spec.Template.Spec
	got, want := patch.Spec.Template.Spec, append(of.Containers[0].Env, corev1.EnvVar{Name: "LEADER_ELECT_MODE", Value: "auto"})
	if text(got.Containers[0].Env) != text(want) || *got.TerminationGracePeriodSeconds != *of.TerminationGracePeriodSeconds {
		t.Errorf("the patch is %s, want %s", text(got), text(want))
	}
}
