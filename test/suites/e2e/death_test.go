// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

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

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// deathRuns is how many leaders die in each way. ZONELECT_DEATH_RUNS sets
// another number.
const deathRuns = 3

// From the end of a process that comes back a second later, and from the
// kubelet's report about one that does not. A few deaths on a busy machine say
// little of the times: the cause shows that no lease ran out.
const (
	backAfter  = time.Second
	restarted  = 1500 * time.Millisecond
	reportedIn = 200 * time.Millisecond
)

// deathTest is three zones with candidates in pods. The test plays the kubelet.
type deathTest struct {
	*testbed.Testbed
	t      *testing.T
	ctx    context.Context
	client kubernetes.Interface
}

func newDeathTest(t *testing.T) *deathTest {
	t.Helper()
	w := &deathTest{t: t, Testbed: trial.Bed(t, testbed.Config{Network: network(), WithoutControllers: true, WithoutNodes: true}), ctx: patience(t, 5*time.Minute)}
	var err error
	w.client, err = kubernetes.NewForConfig(w.Cluster.RESTConfig("zc"))
	must(t, err)
	return w
}

// container is a candidate that is a container's only process.
type container struct {
	*trial.Seat
	bed *deathTest
	pod *corev1.Pod
	n   int // which instance of the container
}

// pod makes a pod for a candidate.
func (w *deathTest) pod(name string) *corev1.Pod {
	w.t.Helper()
	pod := testbed.PodManifest("", name, "default", nil)
	pod.Spec.NodeName = ""
	pod, err := w.client.CoreV1().Pods("default").Create(w.ctx, pod, metav1.CreateOptions{})
	must(w.t, err)
	return pod
}

// run starts the nth instance of a pod's container.
func (w *deathTest) run(zone, lock string, pod *corev1.Pod, n int, args ...string) *container {
	w.t.Helper()
	identity := fmt.Sprintf("%s.%d", pod.Name, n)
	args = append([]string{"--pod-name", pod.Name, "--pod-uid", string(pod.UID), "--container", pod.Spec.Containers[0].Name}, args...)
	s, err := trial.Start(w.ctx, w.Testbed, trial.Zonelect, zone, lock, identity, args...)
	must(w.t, err)
	return &container{s, w, pod, n}
}

func (c *container) id() string { return fmt.Sprintf("testbed://%s/%d", c.pod.UID, c.n) }

// report reports the container's state, as the kubelet would.
func (c *container) report(state corev1.ContainerState) {
	c.bed.t.Helper()
	pods := c.bed.client.CoreV1().Pods("default")
	pod, err := pods.Get(c.bed.ctx, c.pod.Name, metav1.GetOptions{})
	must(c.bed.t, err)
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
		Name: pod.Spec.Containers[0].Name, Image: "testbed", ImageID: "testbed", ContainerID: c.id(), State: state,
	}}}
	_, err = pods.UpdateStatus(c.bed.ctx, pod, metav1.UpdateOptions{})
	must(c.bed.t, err)
}

// runs reports that it has been running since then.
func (c *container) runs(started time.Time) {
	c.report(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(started)}})
}

// ended reports that it ended just now.
func (c *container) ended() {
	c.report(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, ContainerID: c.id(), FinishedAt: metav1.Now()}})
}

// dies ends the process as a panic does, without any cleanup, and returns the
// time of that.
func (c *container) dies() time.Time {
	c.bed.t.Helper()
	now := time.Now()
	must(c.bed.t, c.Kill())
	<-c.Done()
	return now
}

func (w *deathTest) await(c *container, event string, since time.Time) events.Event {
	w.t.Helper()
	e, err := c.Await(w.ctx, event, since)
	must(w.t, err)
	return e
}

// leads waits for the first of these that begins to lead since then.
func (w *deathTest) leads(since time.Time, all ...*container) (*container, events.Event) {
	w.t.Helper()
	var seats []*trial.Seat
	for _, c := range all {
		seats = append(seats, c.Seat)
	}
	seat, e, err := trial.AwaitAny(w.ctx, seats, "leading", since)
	must(w.t, err)
	return all[slices.Index(seats, seat)], e
}

// noted waits until the Lease has the detail that would prove the holder's
// death.
func (w *deathTest) noted(lock, key, value string) {
	w.t.Helper()
	for {
		lease, err := w.client.CoordinationV1().Leases("default").Get(w.ctx, lock, metav1.GetOptions{})
		must(w.t, err)
		if got := lease.Annotations[key]; got != "" && strings.HasPrefix(got, value) {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-w.ctx.Done():
			w.t.Fatalf("the Lease does not say %s=%s: %v", key, value, lease.Annotations)
		}
	}
}

// begin starts a leader in za and followers in the other zones.
func (w *deathTest) begin(lock string) (leader *container, followers []*container) {
	w.t.Helper()
	leader = w.run("za", lock, w.pod(lock+"-a"), 1)
	w.await(leader, "leading", time.Time{})
	for _, zone := range []string{"zb", "zc"} {
		follower := w.run(zone, lock, w.pod(lock+"-"+zone), 1)
		w.await(follower, "following", time.Time{})
		followers = append(followers, follower)
	}
	return leader, followers
}

// stop ends candidates, so that they do not slow down the next run.
func (w *deathTest) stop(all ...*container) {
	w.t.Helper()
	for _, c := range all {
		must(w.t, c.Terminate())
	}
	for _, c := range all {
		must(w.t, c.Wait(w.ctx))
	}
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// within is how long a takeover may last in a test of that many.
func within(promised time.Duration, runs int) time.Duration {
	if runs >= 10 {
		return promised
	}
	return lease / 2
}

func TestALeaderWhoseProcessPanicsLeadsAgainAsSoonAsItIsBack(t *testing.T) {
	w := newDeathTest(t)
	var took []time.Duration
	runs := fromEnv(t, "ZONELECT_DEATH_RUNS", deathRuns)
	for i := range runs {
		lock := fmt.Sprint("panic-", i)
		leader, followers := w.begin(lock)
		w.noted(lock, record.AnnotationProcessLock, "")
		died := leader.dies()
		time.Sleep(time.Until(died.Add(backAfter)))
		back := w.run("za", lock, leader.pod, 2)
		next, e := w.leads(died, append(followers, back)...)
		took = append(took, e.Time.Sub(died))
		t.Logf("%s leads %v after the leader's end, since that has %s", next.Identity, e.Time.Sub(died), e.Cause)
		if most := within(restarted, runs); e.Time.Sub(died) > most || e.Cause != string(status.CauseDied) {
			t.Errorf("want %v at most, and cause %s", most, status.CauseDied)
		}
		w.stop(append(followers, back)...)
	}
	t.Logf("median %v, worst %v of %d", median(took), slices.Max(took), len(took))
}

func TestALeaderWhoseContainerHasEndedIsFollowedAsSoonAsThatIsReported(t *testing.T) {
	w := newDeathTest(t)
	var took []time.Duration
	runs := fromEnv(t, "ZONELECT_DEATH_RUNS", deathRuns)
	for i := range runs {
		lock := fmt.Sprint("report-", i)
		leader, followers := w.begin(lock)
		leader.runs(time.Now())
		w.noted(lock, record.AnnotationContainerID, leader.id())
		leader.dies()
		time.Sleep(backAfter)
		reported := time.Now()
		leader.ended()
		next, e := w.leads(time.Time{}, followers...)
		took = append(took, e.Time.Sub(reported))
		t.Logf("%s leads %v after the report, since the leader has %s", next.Identity, e.Time.Sub(reported), e.Cause)
		if most := within(reportedIn, runs); e.Time.Before(reported) || e.Time.Sub(reported) > most || e.Cause != string(status.CauseDied) {
			t.Errorf("want %v at most, and cause %s", most, status.CauseDied)
		}
		w.stop(followers...)
	}
	t.Logf("median %v, worst %v of %d", median(took), slices.Max(took), len(took))
}

func TestWhatProvesNoDeathLeavesTheLeaseToRunOut(t *testing.T) {
	w := newDeathTest(t)
	t.Run("at once", func(t *testing.T) {
		for name, try := range map[string]func(*deathTest){
			"a second copy in the same container": secondCopy,
			"no permission":                       noPermission,
			"container not known":                 unknownContainer,
			"pod deleted by force":                deletedPod,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				try(&deathTest{w.Testbed, t, patience(t, 2*time.Minute), w.client})
			})
		}
	})
}

// expires checks that a follower takes over when the leader's lease has run
// out.
func (w *deathTest) expires(died time.Time, followers ...*container) {
	w.t.Helper()
	_, e := w.leads(time.Time{}, followers...)
	if took := e.Time.Sub(died); took < lease/2 || e.Cause != string(status.CauseExpired) {
		w.t.Errorf("another leads %v after the leader's end, since that has %s", took, e.Cause)
	}
}

// secondCopy: it takes no lease while the first lives, and leads right after
// that.
func secondCopy(w *deathTest) {
	pod := w.pod("copied-a")
	leader := w.run("za", "copied", pod, 1)
	w.await(leader, "leading", time.Time{})
	w.noted("copied", record.AnnotationProcessLock, "")
	second := w.run("za", "copied", pod, 2)
	w.await(second, "following", time.Time{})
	time.Sleep(2 * timing.DefaultRenewInterval)
	died := leader.dies()
	_, e := w.leads(time.Time{}, second)
	if took := e.Time.Sub(died); took < 0 || took > lease/2 || e.Cause != string(status.CauseDied) {
		w.t.Errorf("the second copy leads %v after the first one's end, since that has %s", took, e.Cause)
	}
}

func noPermission(w *deathTest) {
	const lock = "forbidden"
	leader := w.run("za", lock, w.pod(lock+"-a"), 1)
	w.await(leader, "leading", time.Time{})
	leader.runs(time.Now())
	w.noted(lock, record.AnnotationContainerID, leader.id())
	follower := w.run("zb", lock, w.pod(lock+"-b"), 1, "--kubeconfig", w.stranger("zb"))
	w.await(follower, "following", time.Time{})
	died := leader.dies()
	leader.ended()
	w.expires(died, follower)
	said, err := os.ReadFile(follower.Log())
	must(w.t, err)
	if n := strings.Count(string(said), `needs verb \"watch\" on pod`); n != 1 {
		w.t.Errorf("the missing permission is named %d times", n)
	}
}

// stranger returns a kubeconfig of a user who may use the lock and nothing else.
func (w *deathTest) stranger(zone string) string {
	w.t.Helper()
	const name = "stranger"
	rbac, meta := w.client.RbacV1(), metav1.ObjectMeta{Name: name}
	_, err := rbac.Roles("default").Create(w.ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"*"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps", "events"}, Verbs: []string{"*"}},
	}}, metav1.CreateOptions{})
	must(w.t, err)
	_, err = rbac.RoleBindings("default").Create(w.ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
	}, metav1.CreateOptions{})
	must(w.t, err)
	cfg, err := clientcmd.LoadFromFile(w.Cluster.Kubeconfig(zone))
	must(w.t, err)
	for _, user := range cfg.AuthInfos {
		user.Impersonate = name
	}
	file := filepath.Join(w.t.TempDir(), "kubeconfig")
	must(w.t, clientcmd.WriteToFile(*cfg, file))
	return file
}

// unknownContainer: the status still shows an earlier instance as running.
func unknownContainer(w *deathTest) {
	leader, followers := w.begin("unknown")
	leader.runs(time.Now().Add(-time.Minute))
	time.Sleep(3 * timing.DefaultRenewInterval)
	died := leader.dies()
	leader.ended()
	w.expires(died, followers...)
}

func deletedPod(w *deathTest) {
	leader, followers := w.begin("deleted")
	leader.runs(time.Now())
	w.noted("deleted", record.AnnotationContainerID, leader.id())
	died := leader.dies()
	must(w.t, w.client.CoreV1().Pods("default").Delete(w.ctx, leader.pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	w.expires(died, followers...)
}
