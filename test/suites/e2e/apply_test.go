// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"encoding/base64"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/environment"
	"github.com/zonelect/zonelect/operator"
	"github.com/zonelect/zonelect/test/kit/manifests"
)

// warnings are those of the API server.
type warnings []string

func (w *warnings) HandleWarningHeader(_ int, _, text string) { *w = append(*w, text) }

// TestAllOfConfigIsAdmitted applies all of config/ to a real API server, and checks
// the result.
func TestAllOfConfigIsAdmitted(t *testing.T) {
	g := ownGround(t, plain)
	all := kustomizations(t)
	var heard warnings
	cfg := g.Cluster.RESTConfig("za")
	cfg.WarningHandler = &heard
	k := newKubectl(t, cfg)
	before := g.systemFlows(t)
	names := slices.Sorted(maps.Keys(all))
	slices.SortStableFunc(names, func(a, b string) int {
		return strings.Compare(fmt.Sprint(a != "base"), fmt.Sprint(b != "base"))
	}) // it contains the namespace
	for _, name := range names {
		for _, o := range all[name] {
			k.apply(t, o)
		}
	}
	for _, o := range manifests.Kustomize(t, "../../../examples/another-name") {
		k.apply(t, o)
	}
	if len(heard) > 0 {
		t.Errorf("the API server warns: %q", heard)
	}
	t.Run("the pods are admitted", func(t *testing.T) { podsAreAdmitted(t, g.client, all["mode-auto"]) })
	t.Run("the pods of all bases are restricted", func(t *testing.T) { podsAreRestricted(t, g.client) })
	t.Run("renewals have a level of their own", func(t *testing.T) { g.leasesFlow(t, before) })
}

// podsAreAdmitted creates a pod from the Deployment's template as a dry run,
// and checks the environment that it would have against package operator.
func podsAreAdmitted(t *testing.T, client kubernetes.Interface, all manifests.Objects) {
	deployment := manifests.Pick[appsv1.Deployment](t, all, "Deployment")[0]
	template := deployment.Spec.Template
	meta := *template.ObjectMeta.DeepCopy()
	meta.Name = "my-operator-1"
	pod, err := client.CoreV1().Pods(appliedNamespace).Create(t.Context(), &corev1.Pod{ObjectMeta: meta, Spec: template.Spec},
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	must(t, err)
	var o operator.Options
	flags := pflag.NewFlagSet("my-operator", pflag.ContinueOnError)
	o.AddFlags(flags)
	must(t, flags.Parse(pod.Spec.Containers[0].Args))
	if o.Disabled || o.Legacy.Mode != operator.ModeAuto {
		t.Errorf("its arguments %q make of it %+v", pod.Spec.Containers[0].Args, o)
	}

	pod.Spec.NodeName, pod.Labels[corev1.LabelTopologyZone] = "node-1", "za"
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	for _, variable := range environOf(pod) {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	// Before Kubernetes 1.30.
	claims := fmt.Sprintf(`{"kubernetes.io":{"namespace":%q,"pod":{"name":%q,"uid":"f7bb2a9e-uid"}}}`, pod.Namespace, pod.Name)
	token := "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	self, err := environment.WhoAmI(t.Context(), &rest.Config{BearerToken: token}, logr.Discard(), environment.Self{})
	must(t, err)
	self.Identity = ""
	want := environment.Self{PodName: pod.Name, PodUID: "f7bb2a9e-uid", Namespace: pod.Namespace, Node: "node-1", Zone: "za"}
	if self != want {
		t.Errorf("by its token and its environment it knows %+v, want %+v", self, want)
	}
}

// podsAreRestricted creates a pod of each Deployment of config/ and examples/ as a dry run, where the Pod
// Security Standard "restricted" is enforced.
func podsAreRestricted(t *testing.T, client kubernetes.Interface) {
	makeNamespace(t, client, metav1.ObjectMeta{
		Name: "restricted", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	})
	admit := func(name string, spec corev1.PodSpec) error {
		spec.ServiceAccountName = ""
		_, err := client.CoreV1().Pods("restricted").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec},
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	err := admit("plain", corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "PodSecurity") {
		t.Fatalf("the standard is not enforced: %v", err)
	}
	found := 0
	for _, pattern := range []string{"config/*/*", "examples/*", "examples/*/*"} {
		dirs, err := filepath.Glob("../../../" + pattern + "/kustomization.yaml")
		must(t, err)
		for _, dir := range dirs {
			if dir = filepath.Dir(dir); dir == "../../../config/operator/name" {
				continue
			}
			for _, d := range manifests.Pick[appsv1.Deployment](t, manifests.Kustomize(t, dir), "Deployment") {
				found++
				if err := admit(d.Name, d.Spec.Template.Spec); err != nil {
					t.Errorf("%s: %v", dir, err)
				}
			}
		}
	}
	if found < 6 { // base, probes, mode-auto, and the examples
		t.Errorf("only %d Deployments were found", found)
	}
}

// leasesFlow checks which FlowSchema classifies requests.
func (g *ground) leasesFlow(t *testing.T, before [2]types.UID) {
	schema, err := g.client.FlowcontrolV1().FlowSchemas().Get(t.Context(), "operator-leases", metav1.GetOptions{})
	must(t, err)
	for _, request := range []string{"leases/lock", "leases?watch=1"} {
		until(t, "an operator's request for "+request+" is classified to its FlowSchema", func() bool {
			return g.flowOf(t, appliedNamespace, request) == schema.UID
		})
	}
	if now := g.systemFlows(t); now != before {
		t.Errorf("requests of kube-system for leases were classified to %s, and are to %s", before, now)
	}
	for _, c := range schema.Status.Conditions {
		if c.Type == flowcontrolv1.FlowSchemaConditionDangling && c.Status == flowcontrolv1.ConditionTrue {
			t.Errorf("the FlowSchema dangles: %s", c.Message)
		}
	}
}

// systemFlows returns the FlowSchemas that classify kube-system's own requests.
func (g *ground) systemFlows(t *testing.T) [2]types.UID {
	t.Helper()
	return [2]types.UID{g.flowOf(t, "kube-system", "leases/lock"), g.flowOf(t, "kube-system", "leases?watch=1")}
}

// flowOf returns the FlowSchema that classifies a service account's request for
// leases of its namespace. The account has no permission for the request, but
// the API server classifies before it authorizes.
func (g *ground) flowOf(t *testing.T, namespace, request string) types.UID {
	t.Helper()
	cfg := g.Cluster.RESTConfig("za")
	cfg.Impersonate.UserName = userName(serviceAccount(namespace, "nobody"))
	client, err := rest.HTTPClientFor(cfg)
	must(t, err)
	answer, err := client.Get(cfg.Host + "/apis/coordination.k8s.io/v1/namespaces/" + namespace + "/" + request)
	must(t, err)
	must(t, answer.Body.Close())
	return types.UID(answer.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID))
}
