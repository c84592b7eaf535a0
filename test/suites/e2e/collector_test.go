// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core && !long

package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/internal/phase"
	"github.com/zonelect/zonelect/test/kit/history"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

const (
	// bareCollector is a Kubernetes whose garbage collector deletes by UID,
	// even if the object has changed since it looked at it.
	bareCollector = "v1.33.13"
	zone          = "za"
	lock          = "op"
	// withoutM7 makes a candidate lead without waiting for the collector.
	withoutM7 = "--settle=-1s"
	// renewDeadline is how long a cut-off candidate goes on leading.
	renewDeadline = 3 * time.Second
	// sideBySide is how many operators are tested at the same time.
	sideBySide = 5
	// eachStep is how long each step may take on a busy machine.
	eachStep = 40 * time.Second
)

// cluster is a control plane whose garbage collector is behind a gate.
type cluster struct {
	*testbed.Testbed
	gate   *gate
	client kubernetes.Interface
}

func newCluster(t *testing.T, version string) *cluster {
	g := newGate(t)
	bed := trial.Bed(t, testbed.Config{
		Kubernetes: version, Zones: []string{zone}, Network: testbed.Links, ControllersServer: g.url,
	})
	g.lead(t, bed.Cluster.RESTConfig(zone))
	client, err := kubernetes.NewForConfig(bed.Cluster.RESTConfig(zone))
	must(t, err)
	version, err = serverVersion(client)
	must(t, err)
	t.Logf("Kubernetes %s", version)
	return &cluster{Testbed: bed, gate: g, client: client}
}

func serverVersion(client kubernetes.Interface) (string, error) {
	v, err := client.Discovery().ServerVersion()
	if err != nil {
		return "", err
	}
	return v.GitVersion, nil
}

// Without M7: the collector finds the shield's only owner gone. Before its
// delete lands, the next candidate adds itself as an owner and leads; then the
// delete removes the shield, and a legacy pod takes the lock. The candidate
// stops as soon as it sees that; a cut-off one only when it can no longer trust
// its Lease.
func TestWithoutSettlingACollectorOfOldMakesTwoLeaders(t *testing.T) {
	c := newCluster(t, bareCollector)
	for i := range 6 {
		deaf := i%2 == 0
		o := c.newWorkload(t, fmt.Sprintf("bare-%d", i))
		o.replaceBehindTheCollector(t, withoutM7)
		o.await(t, o.next, "leading")
		o.letDelete(t, deaf)
		o.wantAnswer(t, http.StatusOK)
		time.Sleep(2 * renewDeadline)
		t.Logf("deaf %v: two leaders for %v", deaf, o.overlap())
		if deaf && o.overlap() == 0 {
			t.Error("no overlap without M7: then this test cannot tell that the rule is kept")
		}
		o.kill(t, o.legacy, o.next)
	}
}

// With M7 the same is harmless, whenever during the wait the delete lands.
func TestACollectorOfOldNeverMakesTwoLeaders(t *testing.T) {
	const (
		runs   = 20
		spread = 3500 * time.Millisecond
	)
	c := newCluster(t, bareCollector)
	tickets := make(chan struct{}, sideBySide)
	var all sync.WaitGroup
	for i := range runs {
		all.Go(func() {
			tickets <- struct{}{}
			defer func() { <-tickets }()
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				o := c.newWorkload(t, fmt.Sprintf("settled-%d", i))
				o.settles(t, spread*time.Duration(i)/runs, i%2 == 0)
			})
		})
	}
	all.Wait()
}

// settles lets the delete land so long after the next candidate has added
// itself to the shield's owners.
func (o *workload) settles(t *testing.T, late time.Duration, deaf bool) {
	o.replaceBehindTheCollector(t)
	time.Sleep(late)
	o.letDelete(t, deaf)
	o.wantAnswer(t, http.StatusOK)
	o.await(t, o.legacy, "leading")
	time.Sleep(phase.SettleDefault + 2*renewDeadline)
	if deaf {
		o.path.heal()
		time.Sleep(renewDeadline)
	}
	o.kill(t, o.legacy)
	o.removePod(t, o.legacy)
	led := o.await(t, o.next, "leading")
	t.Logf("delete after %v, deaf %v: the legacy pod led, and the candidate %v after its end", late, deaf, led.Sub(o.ended[o.legacy]).Round(time.Millisecond))
	o.kill(t, o.next)
	if o.overlap() > 0 {
		t.Errorf("two leaders for %v", o.overlap())
	}
}

// A collector that compares versions needs no rule.
func TestACollectorThatComparesVersionsMakesNoTwoLeadersEvenWithoutSettling(t *testing.T) {
	c := newCluster(t, "")
	for i := range 4 {
		o := c.newWorkload(t, fmt.Sprintf("new-%d", i))
		o.replaceBehindTheCollector(t, withoutM7)
		o.await(t, o.next, "leading")
		o.letDelete(t, i%2 == 0)
		o.wantAnswer(t, http.StatusConflict)
		time.Sleep(2 * renewDeadline)
		if len(o.terms(o.legacy)) > 0 {
			t.Errorf("the legacy pod led, beside the candidate for %v", o.overlap())
		}
		o.kill(t, o.legacy, o.next)
	}
}

// A known limit of collectors that compare versions: after a conflict with a
// change that left the owners alone, they delete by UID after all. No candidate
// makes such a change to a shield whose owners are all gone, but others can.
func TestACollectorThatComparesVersionsForgetsThemAfterSomebodyElsesChange(t *testing.T) {
	c := newCluster(t, "")
	o := c.newWorkload(t, "touched")
	o.endFirst(t, withoutM7)
	_, err := o.client.CoreV1().ConfigMaps(o.namespace).Patch(t.Context(), lock, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"touched":"yes"}}}`), metav1.PatchOptions{})
	must(t, err)
	conflict := o.deletion
	o.deletion = o.gate.hold(http.MethodDelete, o.configMaps()+"/"+lock)
	close(conflict.released)
	o.within(t, conflict.answered, "the answer to the collector")
	o.within(t, o.deletion.arrived, "the collector's second delete")
	if conflict.status != http.StatusConflict {
		t.Errorf("the collector's delete was answered with %d", conflict.status)
	}
	o.startNext(t, withoutM7)
	o.await(t, o.next, "leading")
	o.letDelete(t, true)
	o.wantAnswer(t, http.StatusOK)
	time.Sleep(2 * renewDeadline)
	t.Logf("two leaders for %v", o.overlap())
	if o.overlap() == 0 {
		t.Error("no overlap: then this limit is none any more")
	}
	o.kill(t, o.legacy, o.next)
}

// workload is an operator in a namespace of its own, whose only candidate is
// replaced while a legacy pod waits for the shield to go.
type workload struct {
	*cluster
	namespace string
	legacy    *trial.Seat
	next      *trial.Seat               // the candidate's successor
	path      *gate                     // the successor's own way to the API
	ended     map[*trial.Seat]time.Time // when its process was ended

	deletion *held // the collector's
	creation *held // the legacy pod's
}

func (c *cluster) newWorkload(t *testing.T, namespace string) *workload {
	t.Helper()
	_, err := c.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	must(t, err)
	return &workload{cluster: c, namespace: namespace, ended: map[*trial.Seat]time.Time{}}
}

// start runs a program in a pod of its own.
func (o *workload) start(t *testing.T, kind trial.Kind, name string, more ...string) *trial.Seat {
	t.Helper()
	name = o.namespace + "-" + name
	pod, err := o.Cluster.AddPod(t.Context(), zone, name, o.namespace, map[string]string{"app": lock})
	must(t, err)
	args := []string{"--namespace", o.namespace}
	if kind == trial.Zonelect {
		args = append(args, "--lease-duration", "5s", "--renew-deadline", renewDeadline.String(), "--renew-interval", "1s",
			"--mode", "auto", "--pod-name", name, "--pod-uid", string(pod.UID), "--node-name", pod.Spec.NodeName, "--selector", "app="+lock)
	}
	s, err := trial.Start(t.Context(), o.Testbed, kind, zone, lock, name, append(args, more...)...)
	must(t, err)
	return s
}

// replaceBehindTheCollector starts the next candidate after the collector has
// looked at the first one's shield, and before the delete that follows. That
// delete and a create by the legacy pod are under way when it returns.
func (o *workload) replaceBehindTheCollector(t *testing.T, how ...string) {
	t.Helper()
	o.endFirst(t, how...)
	o.startNext(t, how...)
}

// endFirst ends the only candidate, and waits until the collector wants to
// delete its shield.
func (o *workload) endFirst(t *testing.T, how ...string) {
	t.Helper()
	first := o.start(t, trial.Zonelect, "first", how...)
	o.await(t, first, "leading")
	o.legacy = o.start(t, trial.Legacy, "legacy", "--kubeconfig", o.gate.kubeconfig(t))
	o.await(t, o.legacy, "following")
	o.creation = o.gate.hold(http.MethodPost, o.configMaps())
	o.deletion = o.gate.hold(http.MethodDelete, o.configMaps()+"/"+lock)
	o.within(t, o.creation.arrived, "the legacy pod's next try")
	must(t, first.Terminate())
	must(t, first.Wait(t.Context()))
	o.ended[first] = time.Now()
	o.removePod(t, first)
	o.within(t, o.deletion.arrived, "the collector's delete")
}

func (o *workload) configMaps() string { return "/api/v1/namespaces/" + o.namespace + "/configmaps" }

// startNext starts the next candidate and waits until it has added itself to
// the shield's owners.
func (o *workload) startNext(t *testing.T, how ...string) {
	t.Helper()
	o.path = newGate(t)
	o.path.lead(t, o.Cluster.RESTConfig(zone))
	o.next = o.start(t, trial.Zonelect, "next", append(how, "--kubeconfig", o.path.kubeconfig(t))...)
	o.awaitOwners(t, 2)
}

// letDelete lets the collector's delete land, and right after it the legacy
// pod's create. A deaf candidate sees neither.
func (o *workload) letDelete(t *testing.T, deaf bool) {
	t.Helper()
	if deaf {
		o.path.cut()
	}
	close(o.deletion.released)
	o.within(t, o.deletion.answered, "the answer to the collector")
	close(o.creation.released)
	o.within(t, o.creation.answered, "the answer to the legacy pod")
}

// wantAnswer fails unless the collector's delete got that status.
func (o *workload) wantAnswer(t *testing.T, status int) {
	t.Helper()
	if o.deletion.status != status {
		t.Fatalf("the collector's delete was answered with %d, want %d", o.deletion.status, status)
	}
}

// within waits until ch is closed.
func (o *workload) within(t *testing.T, ch <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(eachStep):
		t.Fatalf("%s did not come", what)
	}
}

// await returns when the program first printed the event.
func (o *workload) await(t *testing.T, s *trial.Seat, event string) time.Time {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), eachStep)
	defer cancel()
	e, err := s.Await(ctx, event, time.Time{})
	must(t, err)
	return e.Time
}

// awaitOwners waits until the ConfigMap has that many owners.
func (o *workload) awaitOwners(t *testing.T, count int) {
	t.Helper()
	var last *corev1.ConfigMap
	for start := time.Now(); time.Since(start) < eachStep; time.Sleep(5 * time.Millisecond) {
		var err error
		last, err = o.client.CoreV1().ConfigMaps(o.namespace).Get(t.Context(), lock, metav1.GetOptions{})
		must(t, err)
		if len(last.OwnerReferences) == count {
			return
		}
	}
	t.Fatalf("the ConfigMap has not %d owners: %+v", count, last.ObjectMeta)
}

func (o *workload) kill(t *testing.T, seats ...*trial.Seat) {
	t.Helper()
	for _, s := range seats {
		must(t, s.Kill())
		<-s.Done()
		o.ended[s] = time.Now()
	}
}

func (o *workload) removePod(t *testing.T, s *trial.Seat) {
	t.Helper()
	must(t, o.client.CoreV1().Pods(o.namespace).Delete(t.Context(), s.Identity, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
}

// terms are the terms of a program until now, or until its process was ended.
func (o *workload) terms(s *trial.Seat) history.History {
	end, ended := o.ended[s]
	if !ended {
		end = time.Now()
	}
	return history.TermsOf(history.Span{Pod: s.Identity, Legacy: s == o.legacy, End: end, Open: !ended}, s.Events())
}

// overlap is the longest time for which the candidate and the legacy pod both
// led.
func (o *workload) overlap() time.Duration {
	all := append(o.terms(o.next), o.terms(o.legacy)...).Overlaps()
	return history.Longest(slices.DeleteFunc(all, func(x history.Overlap) bool { return x.First.Legacy == x.Second.Legacy }))
}
