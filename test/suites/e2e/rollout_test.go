// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/test/kit/manifests"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

// fleet runs a program for each pod of a Deployment, and asks its readiness probe, as a scheduler
// and a kubelet do.
type fleet struct {
	*testing.T
	*testbed.Testbed
	ctx    context.Context
	client *kubernetes.Clientset

	mu   sync.Mutex
	pods map[types.UID]*replica
}

// replica is the program of a pod.
type replica struct {
	*testbed.Process
	name, address string
	ready         bool
	failed        int // probes in a row
}

// machine is the node of all pods.
const machine = "machine"

// newFleet applies config/operator/probes, and runs the example of kubebuilder's manager for its pods until the test
// ends.
func newFleet(t *testing.T, g *ground) *fleet {
	t.Helper()
	f := &fleet{T: t, Testbed: g.Testbed, ctx: patience(t, 5*soon), client: g.client, pods: map[types.UID]*replica{}}
	apply(t, g.Cluster.RESTConfig("zc"), manifests.Kustomize(t, "../../../config/operator/probes"))
	allow(t, g.client, "", g.named("work"), serviceAccount(appliedNamespace, appliedAccount),
		rule("", []string{"configmaps"}, []string{"get", "list", "watch", "patch"})) // for the operator's own work
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machine, Labels: map[string]string{corev1.LabelTopologyZone: "za"}}}
	if _, err := g.client.CoreV1().Nodes().Create(f.ctx, node, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) { // of an earlier run
		must(t, err)
	}
	running, end := context.WithCancel(f.ctx)
	var run sync.WaitGroup
	t.Cleanup(func() {
		end()
		run.Wait()
		for _, one := range f.replicas() {
			_ = one.Kill()
		}
		// Its pods would find nobody who runs them.
		_ = g.client.AppsV1().Deployments(appliedNamespace).Delete(context.WithoutCancel(f.ctx), appliedAccount, metav1.DeleteOptions{})
	})
	run.Go(func() {
		for running.Err() == nil {
			f.tend()
			time.Sleep(50 * time.Millisecond)
		}
	})
	return f
}

// tend does for all pods what is due. What fails is due again.
func (f *fleet) tend() {
	pods, err := f.client.CoreV1().Pods(appliedNamespace).List(f.ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for _, pod := range pods.Items {
		f.mu.Lock()
		one := f.pods[pod.UID]
		f.mu.Unlock()
		switch {
		case pod.DeletionTimestamp != nil:
			f.stop(&pod, one)
		case pod.Spec.NodeName == "":
			_ = f.client.CoreV1().Pods(pod.Namespace).Bind(f.ctx, &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: machine},
			}, metav1.CreateOptions{})
		case one == nil:
			f.start(&pod)
		default:
			f.probe(&pod, one)
		}
	}
}

// start runs the program of a pod, with its arguments and its environment.
func (f *fleet) start(pod *corev1.Pod) {
	ip, err := f.Network.Address("za")
	must(f.T, err)
	address := net.JoinHostPort(ip, freePort(f.T))
	one := &replica{name: pod.Name, address: address}
	spec, err := processOf(f.ctx, f.Testbed, f.client, pod, "za", built["./examples/kubebuilder/after"])
	if err != nil {
		return // the next time, perhaps
	}
	spec.Args = append(slices.Clone(spec.Args), "-health-probe-bind-address", address)
	if one.Process, err = f.StartProcess("za", spec); err != nil {
		f.Errorf("start %s: %v", pod.Name, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pods[pod.UID] = one
}

// stop ends a pod that is deleted.
func (f *fleet) stop(pod *corev1.Pod, one *replica) {
	if one != nil {
		f.mu.Lock()
		delete(f.pods, pod.UID)
		f.mu.Unlock()
		if err := one.Terminate(); err == nil {
			err = one.Wait(f.ctx)
			if err != nil && f.ctx.Err() == nil {
				f.Errorf("%s ended with %v", pod.Name, err)
			}
		}
	}
	_ = f.client.CoreV1().Pods(pod.Namespace).Delete(f.ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
}

// probe sets whether a pod is Ready, by its readiness probe.
func (f *fleet) probe(pod *corev1.Pod, one *replica) {
	client := http.Client{Timeout: time.Second}
	answer, err := client.Get("http://" + one.address + pod.Spec.Containers[0].ReadinessProbe.HTTPGet.Path)
	if err == nil {
		_ = answer.Body.Close()
	}
	if err == nil && answer.StatusCode == http.StatusOK {
		one.failed, one.ready = 0, true
	} else if one.failed++; one.failed >= 3 { // a kubelet's failureThreshold
		one.ready = false
	}
	ready := corev1.ConditionFalse
	if one.ready {
		ready = corev1.ConditionTrue
	}
	said := func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == ready }
	if slices.ContainsFunc(pod.Status.Conditions, said) {
		return
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		{Type: corev1.ContainersReady, Status: ready}, {Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()},
	}
	_, _ = f.client.CoreV1().Pods(pod.Namespace).UpdateStatus(f.ctx, pod, metav1.UpdateOptions{})
}

// replicas are those that run.
func (f *fleet) replicas() []*replica {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.pods))
}

// rolledOut waits until all replicas are Ready, and of the present template.
func (f *fleet) rolledOut() {
	f.Helper()
	until(f.T, "the rollout is complete", func() bool {
		d, err := f.client.AppsV1().Deployments(appliedNamespace).Get(f.ctx, "my-operator", metav1.GetOptions{})
		must(f.T, err)
		s := d.Status
		return s.ObservedGeneration == d.Generation && s.UpdatedReplicas == 3 && s.Replicas == 3 && s.AvailableReplicas == 3
	})
}

// A rolling update by the real Deployment controller replaces all replicas, because followers are Ready, too.
// In the end one of the new replicas leads.
func TestARollingUpdateProceedsAndOneLeads(t *testing.T) {
	g := newGround(t, harmless, "rollout")
	terms := g.follow(t, appliedNamespace, "d1f2a3b4.example.com")
	f := newFleet(t, g)
	f.rolledOut()
	f.leads(terms)
	for round := range 2 {
		before := f.replicas()
		change := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{"round":"%s-%d"}}}}}`, g.namespace, round)
		deployments := g.client.AppsV1().Deployments(appliedNamespace)
		_, err := deployments.Patch(f.ctx, "my-operator", types.StrategicMergePatchType, change, metav1.PatchOptions{})
		must(t, err)
		until(t, "all old replicas are gone", func() bool {
			now := f.replicas()
			return !slices.ContainsFunc(before, func(one *replica) bool { return slices.Contains(now, one) })
		})
		f.rolledOut()
		f.leads(terms)
	}
	judgeTerms(t, terms(), timing.DefaultLeaseDuration)
}

// leads waits until the Lease has the token of a replica that is there.
func (f *fleet) leads(terms func() []term) {
	f.Helper()
	until(f.T, "one of the replicas leads", func() bool {
		all := terms()
		return len(all) > 0 && all[len(all)-1].token != 0 && !all[len(all)-1].released &&
			slices.ContainsFunc(f.replicas(), func(one *replica) bool { return strings.HasPrefix(all[len(all)-1].holder, one.name) })
	})
}
