// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// elected is a program of which one replica is elected. Each has a pod of a Deployment.
type elected struct {
	lock  string
	kind  trial.Kind // empty for a kube-controller-manager
	args  []string
	pod   []string // the arguments of its pods
	gone  bool     // all replicas are killed and the leader's pod is deleted before the audit
	wants []string // in the lines about it
}

var manifest = []string{"--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=10s", "--leader-elect-retry-period=2s"}

var electors = []elected{
	{lock: "client-go", kind: trial.ClientGo, pod: manifest, wants: []string{" Lease ", " peer ", " 15s ", " Deployment client-go "}},
	{lock: "controller-runtime", kind: trial.Manager, args: []string{"--plain"}, wants: []string{" manager "}},
	{lock: "kube-controller-manager", wants: []string{"kube-system", " kube-controller-manager "}},
	{lock: "record-endpoints", kind: trial.Legacy, args: []string{"--kind", "endpoints"}, wants: []string{" Endpoints "}},
	{lock: "zonelect", kind: trial.Zonelect, pod: manifest, wants: []string{" candidate "}},
	{lock: "zonelect-dual", kind: trial.Zonelect, args: []string{"--mode", "dual"}, wants: []string{"Lease (dual)"}},
	{
		lock: "weak-for-life", kind: trial.Legacy, args: []string{"--kind", "ownerref"},
		wants: []string{" leader-for-life ", "until it is deleted"},
	},
	{lock: "weak-gone", kind: trial.Zonelect, gone: true, wants: []string{" holder-gone"}},
}

// enter starts a replica of an elector in a pod that no controller looks after. Its identity is what client-go's users
// take: the host name, which is the pod's, and something random.
func (g *ground) enter(t *testing.T, e elected, n int) *trial.Seat {
	t.Helper()
	set, zone := e.lock+"-6b7f9c8d54", threeZones[n]
	labels := map[string]string{"app": e.lock, "pod-template-hash": "6b7f9c8d54"}
	pod := testbed.PodManifest(zone, fmt.Sprintf("%s-x%d2vq", set, n), g.namespace, labels)
	pod.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set, UID: "11111111-1111-1111-1111-111111111111", Controller: new(true)},
	}
	pod.Spec.Containers[0].Args = e.pod
	pod, err := g.client.CoreV1().Pods(g.namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	must(t, err)
	identity, args := pod.Name+"_"+string(pod.UID), e.args
	switch e.kind {
	case "": // it controls next to nothing
		plane, err := testbed.Build(t.Context(), "", nil)
		must(t, err)
		_, err = g.StartProcess(zone, testbed.ProcessSpec{Name: pod.Name, Path: plane, Args: []string{
			"kcm", "--kubeconfig", g.Cluster.Kubeconfig(zone), "--leader-elect=true",
			"--controllers=ttl-controller", "--secure-port=0", "--profiling=false",
		}})
		must(t, err)
		return nil
	case trial.Zonelect:
		args = append([]string{"--pod-name", pod.Name, "--pod-uid", string(pod.UID), "--node-name", pod.Spec.NodeName}, args...)
	case trial.Legacy:
		identity = pod.Name
	}
	s, err := trial.Start(t.Context(), g.Testbed, e.kind, zone, e.lock, identity, args...)
	must(t, err)
	return s
}

// isHeld reports whether somebody holds a lock, whatever its kind.
func (g *ground) isHeld(t *testing.T, lock string) bool {
	for _, namespace := range []string{g.namespace, metav1.NamespaceSystem} {
		if holder(leaseOf(t, g.client, namespace, lock)) != "" {
			return true
		}
	}
	_, noMap := g.client.CoreV1().ConfigMaps(g.namespace).Get(t.Context(), lock, metav1.GetOptions{})
	//nolint:staticcheck // SA1019: old electors use them
	_, noEndpoints := g.client.CoreV1().Endpoints(g.namespace).Get(t.Context(), lock, metav1.GetOptions{})
	return noMap == nil || noEndpoints == nil
}

// The audit says of each elector what is true of it, with no more rights than its role has, which may
// write nothing.
func TestAuditJudgesRealElectors(t *testing.T) {
	g := ownGround(t, testbed.Config{Zones: threeZones, Network: testbed.Links, WithoutControllers: true})
	cfg := g.Cluster.RESTConfig("zc")
	cfg.WarningHandler = rest.NoWarnings{} // of Endpoints
	var err error
	g.client, err = kubernetes.NewForConfig(cfg)
	must(t, err)
	path, err := testbed.BuildProgram(t.Context(), "./cmd/kubectl-zonelect")
	must(t, err)
	for _, e := range electors {
		first := g.enter(t, e, 0)
		until(t, "somebody holds "+e.lock, func() bool { return g.isHeld(t, e.lock) })
		second := g.enter(t, e, 1)
		if e.gone {
			time.Sleep(time.Second)
			g.kill(t, second)
			g.kill(t, first)
			pod, _, _ := strings.Cut(first.Identity, "_")
			must(t, g.client.CoreV1().Pods(g.namespace).Delete(t.Context(), pod, metav1.DeleteOptions{}))
		}
	}
	time.Sleep(2 * time.Second)
	grant(t, g.client, "audit", "auditor")
	p := plugin{path, g.Cluster.Kubeconfig("zc"), []string{"--as", "auditor"}}
	said := p.run(t, patience(t, soon), exitError, "audit -A", "1 problem,")
	for _, e := range electors {
		about, alarm := "", false
		for line := range strings.Lines(said) {
			if strings.Contains(line, " "+e.lock+" ") || strings.Contains(line, "/"+e.lock+":") {
				about += line
				alarm = alarm || strings.Contains(line, "warning") || strings.Contains(line, "problem")
			}
		}
		for _, want := range e.wants {
			if !strings.Contains(about, want) {
				t.Errorf("of %s it does not say %q:\n%s", e.lock, want, about)
			}
		}
		if alarm && !strings.HasPrefix(e.lock, "weak-") {
			t.Errorf("a false alarm:\n%s", about)
		}
	}
	if strings.Contains(said, "forbidden") || strings.Contains(said, "is not known") {
		t.Error("the role does not suffice")
	}
}
