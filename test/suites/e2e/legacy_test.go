// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

package e2e_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

const (
	// longestBackoff is the longest time that a leader-for-life follower
	// sleeps.
	longestBackoff = 16 * time.Second * 6 / 5
	// collection is how long the garbage collector may take on a busy machine.
	collection = 10 * time.Second
	// fourLooks is long enough for a follower to look at its lock four times.
	fourLooks = 18 * time.Second
)

var (
	lifeVariants = []string{"original", "stale", "notready"}
	recordKinds  = []string{"configmap", "endpoints", "multilock-configmap", "multilock-endpoints"}
	threeZones   = []string{"za", "zb", "zc"}
)

// past is a bed for programs with the locks of the past.
type past struct {
	*testbed.Testbed
	ctx    context.Context
	client kubernetes.Interface
}

// The programs that the migration is tested with must behave like the real
// ones, or its tests prove nothing.
func TestTheLegacyProgramsBehaveAsTheRealOnesDid(t *testing.T) {
	b := trial.Bed(t, testbed.Config{Zones: threeZones, Network: testbed.Links})
	client, err := kubernetes.NewForConfig(b.Cluster.RESTConfig("za"))
	must(t, err)
	p := &past{b, patience(t, 4*time.Minute), client}
	// All at the same time, however few processors there are: they mostly wait.
	var all sync.WaitGroup
	run := func(name, of string, f func(*testing.T, string)) {
		all.Go(func() { t.Run(of+": "+name, func(t *testing.T) { f(t, of) }) })
	}
	for _, v := range lifeVariants {
		run("the next leads once the leader's pod is collected", v, p.succession)
		run("the shield keeps it waiting", v, p.shielded)
		run("a leader that terminates for ever", v, p.terminating)
		run("a leader on a silent node", v, p.silent)
	}
	for _, kind := range recordKinds {
		run("released and expired", kind, p.records)
	}
	all.Wait()
}

// seat runs a program in a new pod, named after the lock and the zone.
func (p *past) seat(t *testing.T, zone, lock string, args ...string) *trial.Seat {
	t.Helper()
	name := lock + "-" + zone
	_, err := p.Cluster.AddPod(p.ctx, zone, name, "default", nil)
	must(t, err)
	s, err := trial.Start(p.ctx, p.Testbed, trial.Legacy, zone, lock, name, args...)
	must(t, err)
	return s
}

func (p *past) await(t *testing.T, s *trial.Seat, event string) {
	t.Helper()
	_, err := s.Await(p.ctx, event, time.Time{})
	must(t, err)
}

// three seats programs in three zones, the first of which leads.
func (p *past) three(t *testing.T, lock string, args ...string) []*trial.Seat {
	t.Helper()
	var seats []*trial.Seat
	for i, zone := range threeZones {
		seats = append(seats, p.seat(t, zone, lock, args...))
		if i == 0 {
			p.await(t, seats[0], "leading")
		}
	}
	for _, s := range seats[1:] {
		e, err := s.Await(p.ctx, "following", time.Time{})
		must(t, err)
		if e.Leader != seats[0].Identity {
			t.Errorf("%s follows %q, want %q", s.Identity, e.Leader, seats[0].Identity)
		}
	}
	return seats
}

// kill ends a program as a crash does, and returns the time of that.
func (p *past) kill(t *testing.T, s *trial.Seat) time.Time {
	t.Helper()
	killed := time.Now()
	must(t, s.Kill())
	<-s.Done()
	return killed
}

func (p *past) deletePod(t *testing.T, name string) {
	t.Helper()
	must(t, p.client.CoreV1().Pods("default").Delete(p.ctx, name, metav1.DeleteOptions{}))
}

// terms counts how often the seats have led.
func terms(seats ...*trial.Seat) (n int) {
	for _, s := range seats {
		for _, e := range s.Events() {
			if e.Event == "leading" {
				n++
			}
		}
	}
	return n
}

func (p *past) succession(t *testing.T, variant string) {
	lock := "life-" + variant
	seats := p.three(t, lock, "--variant", variant, "--register", lock+"-register")
	killed := p.kill(t, seats[0])
	time.Sleep(2 * time.Second)
	if terms(seats...) != 1 {
		t.Error("another leads while the dead leader's pod is there")
	}
	p.deletePod(t, seats[0].Identity)
	next, led, err := trial.AwaitAny(p.ctx, seats[1:], "leading", killed)
	must(t, err)
	took := led.Time.Sub(killed)
	t.Logf("the next led %v after the kill", took)
	if most := 2*time.Second + collection + longestBackoff; took > most {
		t.Errorf("the next led %v after the kill, want %v at most", took, most)
	}
	p.owns(t, lock, next.Identity)
	time.Sleep(2 * time.Second)
	if n := terms(seats...); n != 2 {
		t.Errorf("%d terms, want 2", n)
	}
	register, err := p.client.CoreV1().ConfigMaps("default").Get(p.ctx, lock+"-register", metav1.GetOptions{})
	must(t, err)
	if d := register.Data; d["identity"] != next.Identity || d["token"] != fmt.Sprint(led.Token) || led.Token == 0 {
		t.Errorf("the register says %v, want identity %s and token %d", d, next.Identity, led.Token)
	}
}

// owns fails unless the lock's only owner is the pod of that name, with its
// UID.
func (p *past) owns(t *testing.T, lock, podName string) {
	t.Helper()
	held, err := p.client.CoreV1().ConfigMaps("default").Get(p.ctx, lock, metav1.GetOptions{})
	must(t, err)
	pod, err := p.client.CoreV1().Pods("default").Get(p.ctx, podName, metav1.GetOptions{})
	must(t, err)
	if o := held.OwnerReferences; len(o) != 1 || o[0].Kind != "Pod" || o[0].Name != podName || o[0].UID != pod.UID {
		t.Errorf("the lock's owners are %v, want pod %s of UID %s", o, podName, pod.UID)
	}
}

// lock creates a leader-for-life's ConfigMap.
func (p *past) lock(t *testing.T, name string, owners ...metav1.OwnerReference) {
	t.Helper()
	_, err := p.client.CoreV1().ConfigMaps("default").Create(p.ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners},
	}, metav1.CreateOptions{})
	must(t, err)
}

func podOwner(name string, uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: name, UID: uid}
}

func (p *past) shielded(t *testing.T, variant string) {
	lock := "shield-" + variant
	leases := p.client.CoordinationV1().Leases("default")
	var owners []metav1.OwnerReference
	for _, candidate := range []string{"a", "b"} {
		presence, err := leases.Create(p.ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: lock + "." + candidate + ".x"},
		}, metav1.CreateOptions{})
		must(t, err)
		owners = append(owners, metav1.OwnerReference{
			APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease", Name: presence.Name, UID: presence.UID,
		})
	}
	p.lock(t, lock, owners...)
	s := p.seat(t, "za", lock, "--variant", variant)
	p.await(t, s, "following")
	time.Sleep(fourLooks)
	if terms(s) != 0 {
		t.Error("it leads while the shield is up")
	}
	held, err := p.client.CoreV1().ConfigMaps("default").Get(p.ctx, lock, metav1.GetOptions{})
	must(t, err)
	if fmt.Sprint(held.OwnerReferences) != fmt.Sprint(owners) {
		t.Errorf("the shield's owners are %v, want %v", held.OwnerReferences, owners)
	}
	for _, owner := range owners { // then it was the shield that it waited for
		must(t, leases.Delete(p.ctx, owner.Name, metav1.DeleteOptions{}))
	}
	p.await(t, s, "leading")
}

// terminating has a leader whose pod is deleted but does not go.
func (p *past) terminating(t *testing.T, variant string) {
	lock := "stuck-" + variant
	pods := p.client.CoreV1().Pods("default")
	manifest := testbed.PodManifest("za", lock+"-leader", "default", nil)
	manifest.Finalizers = []string{"zonelect.dev/test"}
	leader, err := pods.Create(p.ctx, manifest, metav1.CreateOptions{})
	must(t, err)
	p.lock(t, lock, podOwner(leader.Name, leader.UID))
	s := p.seat(t, "zb", lock, "--variant", variant)
	p.await(t, s, "following")
	p.deletePod(t, leader.Name)
	if variant != "stale" {
		time.Sleep(fourLooks)
		if terms(s) != 0 {
			t.Error("it leads while the leader's pod is there")
		}
		_, err := pods.Patch(p.ctx, leader.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		must(t, err)
	}
	p.await(t, s, "leading")
	p.owns(t, lock, s.Identity)
	if _, err := pods.Get(p.ctx, leader.Name, metav1.GetOptions{}); (err == nil) != (variant == "stale") {
		t.Errorf("the leader's pod, when the next leads: %v", err)
	}
}

// silent has a leader whose node is no longer Ready.
func (p *past) silent(t *testing.T, variant string) {
	lock := "silent-" + variant
	nodes, pods := p.client.CoreV1().Nodes(), p.client.CoreV1().Pods("default")
	node, err := nodes.Create(p.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: lock}}, metav1.CreateOptions{})
	must(t, err)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	_, err = nodes.UpdateStatus(p.ctx, node, metav1.UpdateOptions{})
	must(t, err)
	manifest := testbed.PodManifest("za", lock+"-leader", "default", nil)
	manifest.Spec.NodeName = node.Name
	leader, err := pods.Create(p.ctx, manifest, metav1.CreateOptions{})
	must(t, err)
	p.lock(t, lock, podOwner(leader.Name, leader.UID))
	s := p.seat(t, "zb", lock, "--variant", variant)
	p.await(t, s, "following")
	if variant == "notready" {
		p.await(t, s, "leading")
		p.owns(t, lock, s.Identity)
	} else {
		time.Sleep(fourLooks)
		if terms(s) != 0 {
			t.Error("it leads while the leader's pod is there")
		}
		p.owns(t, lock, leader.Name)
	}
	still, err := pods.Get(p.ctx, leader.Name, metav1.GetOptions{})
	must(t, err) // no kubelet is left there to remove it
	if deleted := still.DeletionTimestamp != nil; deleted != (variant == "notready") {
		t.Errorf("the leader's pod is deleted: %v", deleted)
	}
}

// records hands a lock over by release, and then by expiry.
func (p *past) records(t *testing.T, kind string) {
	const (
		ownLease = 15 * time.Second
		renewed  = 2 * time.Second                  // so at most this long before the kill
		poll     = 2 * time.Second * (10 + 12) / 10 // at most
		slack    = 2 * time.Second
	)
	seats := p.three(t, "record-"+kind, "--kind", kind, "--release")
	asked := time.Now()
	must(t, seats[0].Terminate())
	must(t, seats[0].Wait(p.ctx))
	p.await(t, seats[0], "released")
	second, led, err := trial.AwaitAny(p.ctx, seats[1:], "leading", asked)
	must(t, err)
	if took := led.Time.Sub(asked); led.Cause != "released" || took > poll+slack {
		t.Errorf("after the release the next led in %v because the lock was %s", took, led.Cause)
	}
	third := seats[1]
	if second == third {
		third = seats[2]
	}
	// The third must know of the second, or the lease that it awaits is the
	// first's.
	for told := false; !told; {
		e, err := third.Await(p.ctx, "following", asked)
		must(t, err)
		if told = e.Leader == second.Identity; !told {
			asked = e.Time.Add(1)
		}
	}
	killed := p.kill(t, second)
	led, err = third.Await(p.ctx, "leading", killed)
	must(t, err)
	took := led.Time.Sub(killed)
	t.Logf("the next led %v after the kill", took)
	if led.Cause != "expired" || led.Previous != second.Identity || took < ownLease-renewed-slack || took > ownLease+2*poll+slack { // it may have looked just before the last renewal
		t.Errorf("after the kill the next led in %v: %+v", took, led)
	}
}
