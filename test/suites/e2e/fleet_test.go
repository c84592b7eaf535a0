// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !long

package e2e_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/test/kit/manifests"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// fleet runs a program for each pod of a Deployment, and asks its readiness probe, as a scheduler
// and a kubelet do.
type fleet struct {
	*testing.T
	*testbed.Testbed
	ctx     context.Context
	client  *kubernetes.Clientset
	program string
	beaten  time.Time

	mu   sync.Mutex
	pods map[types.UID]*replica
	n    int
}

// replica is the program of a pod.
type replica struct {
	*testbed.Process
	name, ip, url, template string
	ready                   bool
	failed                  int // probes in a row
}

// machine is the node of all pods.
const machine = "machine"

// newFleet applies an example, and runs its pods until the test ends.
func newFleet(ctx context.Context, t *testing.T, b *testbed.Testbed, example string) *fleet {
	t.Helper()
	client, err := kubernetes.NewForConfig(b.Cluster.RESTConfig("za"))
	must(t, err)
	f := &fleet{T: t, Testbed: b, ctx: ctx, client: client, pods: map[types.UID]*replica{}}
	f.program, err = testbed.BuildProgram(ctx, "./examples/"+example)
	must(t, err)
	k := newKubectl(t, b.Cluster.RESTConfig("za"))
	for _, o := range manifests.Kustomize(t, "../../../examples/"+example) {
		k.apply(t, o)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machine, Labels: map[string]string{corev1.LabelTopologyZone: "za"}}}
	_, err = client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	must(t, err)
	running, end := context.WithCancel(ctx)
	var run sync.WaitGroup
	t.Cleanup(func() { end(); run.Wait() })
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
	f.beat()
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

// beat keeps the node Ready.
func (f *fleet) beat() {
	if time.Since(f.beaten) < 5*time.Second {
		return
	}
	node, err := f.client.CoreV1().Nodes().Get(f.ctx, machine, metav1.GetOptions{})
	if err != nil {
		return
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
	if _, err := f.client.CoreV1().Nodes().UpdateStatus(f.ctx, node, metav1.UpdateOptions{}); err == nil {
		f.beaten = time.Now()
	}
}

// start runs the program of a pod, with its arguments and its environment.
func (f *fleet) start(pod *corev1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	address := "127.0.0.1:" + freePort(f.T)
	one := &replica{name: pod.Name, ip: fmt.Sprint("10.0.0.", f.n), url: "http://" + address, template: pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]}
	spec, err := processOf(f.ctx, f.client, pod, pod.Spec.NodeName, one.ip, f.program, f.Cluster.Kubeconfig("za"), f.Dir())
	if err != nil {
		f.n--
		return // the next time, perhaps
	}
	spec.Args = append(slices.Clone(spec.Args), "-address", address)
	if one.Process, err = f.StartProcess("za", spec); err != nil {
		f.Errorf("start %s: %v", pod.Name, err)
	}
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
	code, _ := f.get(one, pod.Spec.Containers[0].ReadinessProbe.HTTPGet.Path)
	ready := corev1.ConditionFalse
	f.mu.Lock()
	if code == http.StatusOK {
		one.failed, one.ready = 0, true
	} else if one.failed++; one.failed >= 3 { // a kubelet's failureThreshold
		one.ready = false
	}
	if one.ready {
		ready = corev1.ConditionTrue
	}
	f.mu.Unlock()
	if len(pod.Status.Conditions) > 0 && pod.Status.PodIP == one.ip && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == ready }) {
		return
	}
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, one.ip, []corev1.PodIP{{IP: one.ip}}
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		{Type: corev1.ContainersReady, Status: ready}, {Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()},
	}
	_, _ = f.client.CoreV1().Pods(pod.Namespace).UpdateStatus(f.ctx, pod, metav1.UpdateOptions{})
}

// get asks a replica. The code is 0 if it does not answer.
func (f *fleet) get(one *replica, path string) (code int, body string) {
	ctx, cancel := context.WithTimeout(f.ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, one.url+path, nil)
	must(f.T, err)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, ""
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text)
}

// replicas are those that run.
func (f *fleet) replicas() []*replica {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.pods))
}

// ready is how many replicas are Ready.
func (f *fleet) ready() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.pods {
		if one.ready {
			n++
		}
	}
	return n
}

// deployment is its present state.
func (f *fleet) deployment() *appsv1.Deployment {
	f.Helper()
	d, err := f.client.AppsV1().Deployments(appliedNamespace).Get(f.ctx, "my-operator", metav1.GetOptions{})
	must(f.T, err)
	return d
}

// change patches the Deployment.
func (f *fleet) change(patch string) {
	f.Helper()
	_, err := f.client.AppsV1().Deployments(appliedNamespace).Patch(f.ctx, "my-operator", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	must(f.T, err)
}

// until waits until something holds.
func (f *fleet) until(what string, so func() bool) {
	f.Helper()
	for !so() {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-f.ctx.Done():
			f.Fatalf("waited in vain: %s; the Deployment is %+v", what, f.deployment().Status)
		}
	}
}

// rolledOut waits until all replicas are Ready, and of the present template.
func (f *fleet) rolledOut() {
	f.Helper()
	f.until("the rollout is complete", func() bool {
		d := f.deployment()
		s := d.Status
		return s.ObservedGeneration == d.Generation && s.UpdatedReplicas == 3 && s.Replicas == 3 && s.AvailableReplicas == 3
	})
}

// A rolling update replaces all replicas while a Service points to the leader, because followers are
// Ready, too. It never ends if only the leader is.
func TestARollingUpdateWithALeaderServiceProceeds(t *testing.T) {
	b := trial.Bed(t, testbed.Config{Zones: []string{"za"}, Network: testbed.Links, WithoutNodes: true})
	f := newFleet(patience(t, 5*time.Minute), t, b, "leader-service")
	p := &pointed{}
	p.follow(t, f.ctx, b, "za", appliedNamespace, "my-operator-leader")
	f.rolledOut()
	f.leads(p)
	for round := range 2 {
		before := f.replicas()
		began, fewest := time.Now(), 3
		f.change(fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"round":"%d"}}}}}`, round))
		f.until("all old replicas are gone", func() bool {
			fewest = min(fewest, f.ready())
			now := f.replicas()
			return !slices.ContainsFunc(before, func(one *replica) bool { return slices.Contains(now, one) })
		})
		f.rolledOut()
		t.Logf("a rolling update took %v", time.Since(began).Round(time.Millisecond))
		if fewest < 3 {
			t.Errorf("only %d replicas were Ready in a rolling update", fewest)
		}
		f.leads(p)
	}
	for _, wrong := range p.versions().Wrong(nil) {
		t.Error(wrong)
	}
	f.change(`{"spec":{"progressDeadlineSeconds":5,"template":{"spec":{"containers":[{"name":"manager","readinessProbe":{"httpGet":{"path":"/"}}}]}}}}`)
	f.until("a rollout whose followers are not Ready jams", func() bool {
		return slices.ContainsFunc(f.deployment().Status.Conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Type == appsv1.DeploymentProgressing && c.Reason == "ProgressDeadlineExceeded"
		})
	})
}

// leads waits until the Service points to the one replica that serves as the leader.
func (f *fleet) leads(p *pointed) {
	f.Helper()
	f.until("the Service points to the leader", func() bool {
		var leaders []string
		for _, one := range f.replicas() {
			if code, _ := f.get(one, "/"); code == http.StatusOK {
				leaders = append(leaders, one.ip)
			}
		}
		return len(leaders) == 1 && leaders[0] == p.to()
	})
}
