// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/test/kit/manifests"
	"github.com/zonelect/zonelect/test/kit/scaffold"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

// scaffolded is a project of kubebuilder on a control plane, with the programs of its pods.
type scaffolded struct {
	*testing.T
	*ground
	ctx      context.Context
	lock     string
	pods     []*corev1.Pod
	programs map[string]*testbed.Process
}

// applyScaffold applies what an election of the project needs, and starts the pods that the
// controllers make of its Deployment: n at once, in the zones in turn. The programs run with the
// rights of the project's service account and the tokens of the pods, as kubelets would start them.
func applyScaffold(t *testing.T, ctx context.Context, dir string, n int) *scaffolded {
	t.Helper()
	g := ownGround(t, testbed.Config{Zones: threeZones, Network: testbed.Links})
	s := &scaffolded{T: t, ground: g, ctx: ctx, lock: "d1f2a3b4.example.com", programs: map[string]*testbed.Process{}}
	all := manifests.Kustomize(t, dir)
	kinds := []string{
		"Namespace", "ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "PodDisruptionBudget", "Deployment",
	}
	for _, kind := range kinds { // not the CRD
		other := func(o *unstructured.Unstructured) bool { return o.GetKind() != kind }
		apply(t, g.Cluster.RESTConfig("za"), slices.DeleteFunc(slices.Clone(all), other))
	}
	deployment := manifests.Pick[appsv1.Deployment](t, all, "Deployment")[0]
	s.namespace = deployment.Namespace
	if got := int(*deployment.Spec.Replicas); got != n {
		t.Fatalf("%d replicas, want %d", got, n)
	}
	account := serviceAccount(s.namespace, deployment.Spec.Template.Spec.ServiceAccountName)
	allow(t, g.client, "", "work", account, rule("", []string{"configmaps"}, []string{"get", "list", "watch"})) // of the example's controller
	program, err := testbed.BuildProgram(ctx, "./examples/kubebuilder/after")
	must(t, err)
	until(s.T, "the pods are there", func() bool {
		pods, err := g.client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(pods.Items) != n {
			return false
		}
		s.pods = nil
		for i, zone := range threeZones[:n] {
			pod := &pods.Items[i]
			if pod.Spec.NodeName != "" {
				s.pods = append(s.pods, pod)
				continue
			}
			_ = g.client.CoreV1().Pods(s.namespace).Bind(ctx, &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: testbed.NodeName(zone)},
			}, metav1.CreateOptions{})
		}
		return len(s.pods) == n
	})
	for _, pod := range s.pods {
		zone := strings.TrimPrefix(pod.Spec.NodeName, "node-")
		spec, err := processOf(ctx, g.Testbed, g.client, pod, zone, program)
		must(t, err)
		if !slices.Contains(spec.Args, "--leader-elect") {
			t.Fatalf("the arguments are %q", spec.Args)
		}
		spec.Args = []string{"--leader-elect", "--health-probe-bind-address=127.0.0.1:0"} // the example has no webhooks and serves no metrics
		s.programs[pod.Name], err = g.StartProcess(zone, spec)
		must(t, err)
	}
	return s
}

func (s *scaffolded) presences() []presence.Object {
	all, err := presence.List(s.ctx, s.client.CoordinationV1().RESTClient(), s.namespace, s.lock)
	if err != nil {
		return nil
	}
	return all
}

// leader is the pod of the present leader.
func (s *scaffolded) leader() *corev1.Pod {
	l := leaseOf(s.T, s.client, s.namespace, s.lock)
	for _, pod := range s.pods {
		if strings.HasPrefix(holder(l), pod.Name+"_") {
			return pod
		}
	}
	return nil
}

// plugin is kubectl-zonelect for the cluster.
func (s *scaffolded) plugin() plugin {
	path, err := testbed.BuildProgram(s.ctx, "./cmd/kubectl-zonelect")
	must(s.T, err)
	return plugin{path: path, kubeconfig: s.Cluster.Kubeconfig("za")}
}

// TestAScaffoldThatChangesEightLinesKnowsItself: main.go's documented diff alone, with the manifests as
// kubebuilder made them: no variable, no right beside those of the generated Roles.
func TestAScaffoldThatChangesEightLinesKnowsItself(t *testing.T) {
	ctx := patience(t, 6*time.Minute)
	dir := filepath.Join(scaffold.New(t, false), "config", "default")
	s := applyScaffold(t, ctx, dir, 1)
	pod := s.pods[0]
	until(s.T, "it leads and has a presence", func() bool { return s.leader() != nil && len(s.presences()) == 1 })
	o := s.presences()[0]
	if o.Pod.Name != pod.Name || o.Pod.UID != pod.UID || o.Node != pod.Spec.NodeName {
		t.Errorf("the presence says %+v, want pod %s (%s) on %s", o, pod.Name, pod.UID, pod.Spec.NodeName)
	}
	l := leaseOf(t, s.client, s.namespace, s.lock)
	for key, want := range map[string]string{"zonelect.dev/node": pod.Spec.NodeName, "zonelect.dev/zone": ""} {
		if got := l.Annotations[key]; got != want {
			t.Errorf("%s of the record is %q, want %q", key, got, want)
		}
	}
	if got := l.Annotations["zonelect.dev/pod"]; !strings.Contains(got, pod.Name) || !strings.Contains(got, string(pod.UID)) {
		t.Errorf("the record's pod is %q", got)
	}
}

// TestAScaffoldWithOneLineMoreIsElectedByZone: config/kubebuilder beside the diff. Each candidate knows
// its zone, and is known; a named one takes over; an evacuation moves the leader.
func TestAScaffoldWithOneLineMoreIsElectedByZone(t *testing.T) {
	ctx := patience(t, 6*time.Minute)
	s := applyScaffold(t, ctx, scaffold.AddElection(t, scaffold.New(t, true)), 3)
	until(s.T, "all are known", func() bool { return s.leader() != nil && len(s.presences()) == 3 })
	for _, o := range s.presences() {
		i := slices.IndexFunc(s.pods, func(pod *corev1.Pod) bool { return pod.UID == o.Pod.UID })
		if i < 0 || o.Node != s.pods[i].Spec.NodeName || "node-"+o.Zone != o.Node {
			t.Errorf("a presence says %+v", o)
		}
	}
	p := s.plugin()
	where := fmt.Sprintf(" -n %s ", s.namespace)
	p.run(t, ctx, exitOK, "status"+where+s.lock, "za:1,zb:1,zc:1")

	p.run(t, ctx, exitOK, "doctor"+where+s.lock)

	first := s.leader()
	to := s.pods[0]
	if to.UID == first.UID {
		to = s.pods[1]
	}
	var identity string
	for _, o := range s.presences() {
		if o.Pod.UID == to.UID {
			identity = o.Identity
		}
	}
	p.run(t, ctx, exitOK, "handover"+where+s.lock+" --to "+identity)
	until(s.T, "the named candidate leads", func() bool { now := s.leader(); return now != nil && now.UID == to.UID })

	zone := strings.TrimPrefix(to.Spec.NodeName, "node-")
	p.run(t, ctx, exitOK, "evacuate"+where+zone)
	until(s.T, "the leader is elsewhere", func() bool { now := s.leader(); return now != nil && now.UID != to.UID })
	for name, program := range s.programs {
		logged, err := os.ReadFile(program.Log())
		must(t, err)
		if strings.Contains(string(logged), locks.ErrForbidden.Error()) || strings.Contains(string(logged), "needs verb") {
			t.Errorf("%s lacks a right:\n%s", name, logged)
		}
	}
}
