// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// writer is a program that is elected, or writes as if it were, in two pods of a Deployment.
type writer struct {
	lock  string
	flags []string // the arguments of its pods; they are those of the program, too
	start func(a *auditStage, w writer, pod *corev1.Pod) error
	then  func(a *auditStage, w writer) error // what happens before it is audited
	wants []string                            // of the lines about it
}

// writers are all electors that are audited.
var writers = []writer{
	{lock: "client-go", start: seat(trial.ClientGo), flags: timed("15s", "10s", "2s"), wants: []string{" Lease ", " peer ", " 15s ", " Deployment client-go "}},
	{lock: "client-go-0.26", start: process(func(a *auditStage) string { return a.past }), wants: []string{" past "}},
	{lock: "controller-runtime", start: seat(trial.Manager, "--plain"), wants: []string{" manager "}},
	{lock: "kube-controller-manager", start: kcm, wants: []string{"kube-system", " kube-controller-manager "}},
	{lock: "fabric8", start: process(foreign, "--style", "fabric8"), wants: []string{" fabric8-kubernetes-client "}},
	{lock: "python", start: process(foreign, "--style", "python", "--lease-duration", "17s", "--retry-period", "5s"), wants: []string{" ConfigMap ", " OpenAPI-Generator ", "not as client-go writes it"}},
	{lock: "record-endpoints", start: seat(trial.Legacy, "--kind", "endpoints"), wants: []string{" Endpoints "}},
	{lock: "zonelect", start: seat(trial.Zonelect), flags: timed("15s", "10s", "2s"), wants: []string{" candidate "}},
	{lock: "zonelect-dual", start: seat(trial.Zonelect, "--mode", "dual"), wants: []string{"Lease (dual)"}},
	{lock: "weak-for-life", start: seat(trial.Legacy, "--kind", "ownerref"), wants: []string{" leader-for-life ", "until it is deleted"}},
	{lock: "weak-gone", start: seat(trial.Zonelect), then: loseLeader, wants: []string{" holder-gone"}},
}

func timed(lease, deadline, retry string) []string {
	return []string{"--leader-elect-lease-duration=" + lease, "--leader-elect-renew-deadline=" + deadline, "--leader-elect-retry-period=" + retry}
}

// auditStage is a control plane with many electors.
type auditStage struct {
	*testbed.Testbed
	ctx                  context.Context
	client               kubernetes.Interface
	seats                map[string][]*trial.Seat // by lock, the leader first
	past, foreign, plane string                   // programs
}

// deploy adds a pod of a Deployment of the lock's name. No controller looks after it.
func (a *auditStage) deploy(w writer, n int) (*corev1.Pod, error) {
	set := w.lock + "-6b7f9c8d54"
	pod := testbed.PodManifest(threeZones[n], fmt.Sprintf("%s-x%d2vq", set, n), metav1.NamespaceDefault, map[string]string{"app": w.lock, "pod-template-hash": "6b7f9c8d54"})
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set, UID: "11111111-1111-1111-1111-111111111111", Controller: new(true)}}
	pod.Spec.Containers[0].Args = w.flags
	return a.client.CoreV1().Pods(pod.Namespace).Create(a.ctx, pod, metav1.CreateOptions{})
}

// zoneOf is the zone of a pod's node.
func zoneOf(pod *corev1.Pod) string {
	i := slices.IndexFunc(threeZones, func(zone string) bool { return pod.Spec.NodeName == testbed.NodeName(zone) })
	return threeZones[i]
}

// identityOf is what client-go's users take: the host name, which is the pod's, and something random.
func identityOf(pod *corev1.Pod) string { return pod.Name + "_" + string(pod.UID) }

// seat starts a program of package trial with the timing of its pod.
func seat(kind trial.Kind, more ...string) func(*auditStage, writer, *corev1.Pod) error {
	return func(a *auditStage, w writer, pod *corev1.Pod) error {
		args := slices.Clone(more)
		for _, flag := range w.flags {
			args = append(args, strings.NewReplacer("--leader-elect-", "--", "retry-period", "renew-interval").Replace(flag))
		}
		identity := identityOf(pod)
		switch kind {
		case trial.Zonelect:
			args = append(args, "--pod-name", pod.Name, "--pod-uid", string(pod.UID), "--node-name", pod.Spec.NodeName)
		case trial.Legacy:
			identity = pod.Name
		}
		s, err := trial.Start(a.ctx, a.Testbed, kind, zoneOf(pod), w.lock, identity, args...)
		a.seats[w.lock] = append(a.seats[w.lock], s)
		return err
	}
}

func foreign(a *auditStage) string { return a.foreign }

// process starts another program. One that only writes is started in the first pod.
func process(path func(*auditStage) string, args ...string) func(*auditStage, writer, *corev1.Pod) error {
	return func(a *auditStage, w writer, pod *corev1.Pod) error {
		zone := zoneOf(pod)
		if zone != threeZones[0] && len(args) > 0 {
			return nil
		}
		all := []string{"--kubeconfig", a.Cluster.Kubeconfig(zone), "--lock", w.lock, "--identity", identityOf(pod)}
		_, err := a.StartProcess(zone, testbed.ProcessSpec{Name: identityOf(pod), Path: path(a), Args: append(all, args...)})
		return err
	}
}

// kcm starts a kube-controller-manager that is elected, and controls next to nothing.
func kcm(a *auditStage, _ writer, pod *corev1.Pod) error {
	zone := zoneOf(pod)
	_, err := a.StartProcess(zone, testbed.ProcessSpec{Name: pod.Name, Path: a.plane, Args: []string{
		"kcm", "--kubeconfig", a.Cluster.Kubeconfig(zone), "--leader-elect=true", "--controllers=ttl-controller", "--secure-port=0", "--profiling=false",
	}})
	return err
}

// loseLeader kills all replicas, and deletes the leader's pod.
func loseLeader(a *auditStage, w writer) error {
	var errs []error
	for _, s := range a.seats[w.lock] {
		errs = append(errs, s.Kill())
	}
	pod, _, _ := strings.Cut(a.seats[w.lock][0].Identity, "_")
	return errors.Join(append(errs, a.client.CoreV1().Pods(metav1.NamespaceDefault).Delete(a.ctx, pod, metav1.DeleteOptions{}))...)
}

// begin starts a writer, and waits until its lock is held before its second pod comes.
func (a *auditStage) begin(t *testing.T, w writer) {
	t.Helper()
	for n := range 2 {
		pod, err := a.deploy(w, n)
		must(t, err)
		must(t, w.start(a, w, pod))
		if n > 0 {
			break
		}
		must(t, a.awaitHolder(w.lock))
	}
}

// awaitHolder waits until somebody holds a lock, whatever its kind.
func (a *auditStage) awaitHolder(lock string) error {
	for a.ctx.Err() == nil {
		for _, namespace := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
			for _, name := range []string{lock, lock + "-0"} {
				if l, err := a.client.CoordinationV1().Leases(namespace).Get(a.ctx, name, metav1.GetOptions{}); err == nil && l.Spec.HolderIdentity != nil {
					return nil
				}
			}
		}
		if _, err := a.client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(a.ctx, lock, metav1.GetOptions{}); err == nil {
			return nil
		}
		//nolint:staticcheck // SA1019: old electors use them
		if _, err := a.client.CoreV1().Endpoints(metav1.NamespaceDefault).Get(a.ctx, lock, metav1.GetOptions{}); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("nobody holds lock %s", lock)
}

// The audit says of each elector what is true of it, with no more rights than its role has, which may
// write nothing.
func TestAuditJudgesRealElectors(t *testing.T) {
	b := trial.Bed(t, testbed.Config{Zones: threeZones, Network: testbed.Links, WithoutControllers: true})
	cfg := b.Cluster.RESTConfig("zc")
	cfg.WarningHandler = rest.NoWarnings{} // of Endpoints
	client, err := kubernetes.NewForConfig(cfg)
	must(t, err)
	a := &auditStage{Testbed: b, ctx: patience(t, 8*time.Minute), client: client, seats: map[string][]*trial.Seat{}}
	a.past, err = testbed.BuildModule(a.ctx, "./test/programs/past", t.Output())
	must(t, err)
	a.foreign, err = testbed.BuildProgram(a.ctx, "./test/programs/foreign")
	must(t, err)
	a.plane, err = testbed.Build(a.ctx, "", nil)
	must(t, err)
	path, err := testbed.BuildProgram(a.ctx, "./cmd/kubectl-zonelect")
	must(t, err)
	for _, w := range writers {
		a.begin(t, w)
	}
	time.Sleep(2 * time.Second)
	for _, w := range writers {
		if w.then != nil {
			must(t, w.then(a, w))
		}
	}
	grant(t, a.ctx, client, "audit", "auditor")
	p := plugin{path, b.Cluster.Kubeconfig("zc"), []string{"--as", "auditor"}}
	said := p.run(t, a.ctx, exitError, "audit -A", "1 problem,")
	for _, w := range writers {
		var lines []string
		alarm := false
		for line := range strings.Lines(said) {
			if strings.Contains(line, " "+w.lock+" ") || strings.Contains(line, "/"+w.lock+":") {
				lines = append(lines, line)
				alarm = alarm || strings.Contains(line, "warning") || strings.Contains(line, "problem")
			}
		}
		about := strings.Join(lines, "")
		for _, want := range w.wants {
			if !strings.Contains(about, want) {
				t.Errorf("of %s it does not say %q:\n%s", w.lock, want, about)
			}
		}
		if alarm && !strings.HasPrefix(w.lock, "weak-") {
			t.Errorf("a false alarm:\n%s", about)
		}
	}
	if strings.Contains(said, "forbidden") || strings.Contains(said, "is not known") {
		t.Error("the role does not suffice")
	}
}
