// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/test/kit/durations"
	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/manifests"
	"github.com/zonelect/zonelect/test/kit/scaffold"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

var (
	sigtermRounds = flag.Int("sigterm-rounds", 6, "how often each leader of a scaffold is told to end")
	sigtermLate   = flag.String("sigterm-late", "late", "what is late: late (answers) or late-requests")
	sigtermApart  = flag.Bool("sigterm-apart", false, "run one operator after the other, not six at the same time")
)

// rollouts are the three replicas of an operator, one of which leads and is told to end, round after
// round.
type rollouts struct {
	kind string
	args []string
	late time.Duration // each answer, or request

	bed        *testbed.Testbed
	client     kubernetes.Interface
	program    string
	lock       string
	seats      []*replicaOf
	started    int
	took       []time.Duration // from the end of the work to the beginning of the next leader's
	reconciled []time.Duration // to its first reconcile
}

type replicaOf struct {
	*testbed.Process
	pod *corev1.Pod
}

// start makes a pod in the zone that the last one left, and runs its program with the pod's token.
func (r *rollouts) start(ctx context.Context) error {
	zone := threeZones[r.started%len(threeZones)]
	pod := testbed.PodManifest(zone, fmt.Sprintf("%s-%d", r.lock, r.started), "default", nil)
	r.started++
	pod.Spec.ServiceAccountName = "controller-manager"
	pod, err := r.client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	spec, err := processOf(ctx, r.client, pod, pod.Spec.NodeName, r.program, r.bed.Cluster.Kubeconfig("za"), r.bed.Dir())
	if err != nil {
		return err
	}
	spec.Args = append([]string{"--lock", r.lock, "--identity", pod.Name, "--bare", "--" + *sigtermLate, r.late.String()}, r.args...)
	p, err := r.bed.StartProcess("za", spec)
	if err != nil {
		return err
	}
	r.seats = append(r.seats, &replicaOf{p, pod})
	return nil
}

// first returns the first event of that kind since then, and whose it is.
func (r *rollouts) first(ctx context.Context, kind string, since time.Time) (events.Event, *replicaOf, error) {
	for {
		for _, s := range r.seats {
			for _, line := range s.Output() {
				var e events.Event
				if line.Time.After(since) && json.Unmarshal([]byte(line.Text), &e) == nil && e.Event == kind && e.Time.After(since) {
					return e, s, nil
				}
			}
		}
		if err := sleep.For(ctx, 5*time.Millisecond); err != nil {
			return events.Event{}, nil, fmt.Errorf("waiting for %q of %s: %w", kind, r.lock, err)
		}
	}
}

// run takes all rounds.
func (r *rollouts) run(ctx context.Context) error {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: r.lock + "-work", Labels: map[string]string{"lock": r.lock}}}
	if _, err := r.client.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{}); err != nil {
		return err
	}
	for range threeZones {
		if err := r.start(ctx); err != nil {
			return err
		}
	}
	_, leader, err := r.first(ctx, "leading", time.Time{})
	for range *sigtermRounds {
		if err != nil {
			return err
		}
		// All candidates look at the lock at other moments each time.
		if err := sleep.For(ctx, 4*time.Second+rand.N(2*time.Second)); err != nil {
			return err
		}
		asked := time.Now()
		if err := leader.Terminate(); err != nil {
			return err
		}
		stopped, _, err := r.first(ctx, "stopped", asked)
		if err != nil {
			return err
		}
		next, by, err := r.first(ctx, "leading", asked)
		if err != nil {
			return err
		}
		works, _, err := r.first(ctx, "reconciling", asked)
		if err != nil {
			return err
		}
		r.took = append(r.took, next.Time.Sub(stopped.Time))
		r.reconciled = append(r.reconciled, works.Time.Sub(stopped.Time))
		i := slices.Index(r.seats, leader)
		_ = leader.Wait(ctx) // as it was told to
		r.seats = slices.Delete(r.seats, i, i+1)
		if err := r.client.CoreV1().Pods("default").Delete(ctx, leader.pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
			return err
		}
		if err := r.start(ctx); err != nil {
			return err
		}
		leader = by
	}
	return err
}

// percentileOf is the smallest that at least that share of all is not above.
func percentileOf(all []time.Duration, share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}

// TestAScaffoldsLeaderHandsOverWithoutConfiguration: no variable is set, and only the rights of the
// Roles that kubebuilder generates are granted. Three replicas are told to end in turn, as in a rollout, on
// a server whose answers take 5, 20 and 50 ms, beside controller-runtime's own election, which releases
// too, in one run.
func TestAScaffoldsLeaderHandsOverWithoutConfiguration(t *testing.T) {
	b := trial.Bed(t, testbed.Config{Zones: threeZones, Network: testbed.Links})
	ctx := patience(t, 4*time.Minute+time.Duration(*sigtermRounds)*time.Minute)
	client, err := kubernetes.NewForConfig(b.Cluster.RESTConfig("za"))
	must(t, err)
	_, err = client.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "controller-manager"}}, metav1.CreateOptions{})
	must(t, err)
	roles := manifests.Pick[rbacv1.Role](t, manifests.Kustomize(t, filepath.Join(scaffold.New(t, false), "config", "default")), "Role")
	if len(roles) != 1 {
		t.Fatalf("the scaffold has %d Roles, want that of the election alone", len(roles))
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "leader-election"}, Rules: roles[0].Rules}
	_, err = client.RbacV1().Roles("default").Create(ctx, role, metav1.CreateOptions{})
	must(t, err)
	_, err = client.RbacV1().RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "leader-election"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "controller-manager", Namespace: "default"}},
	}, metav1.CreateOptions{})
	must(t, err)
	program, err := testbed.BuildProgram(ctx, "./test/programs/manager")
	must(t, err)

	var rows []*rollouts
	for _, late := range []time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond} {
		for kind, args := range map[string][]string{"lasting": {"--lasting"}, "plain": {"--plain"}} {
			rows = append(rows, &rollouts{kind: kind, args: args, late: late, bed: b, client: client, program: program, lock: fmt.Sprintf("%s-%d", kind, late.Milliseconds())})
		}
	}
	errs := make([]error, len(rows))
	var all sync.WaitGroup
	for i, r := range rows {
		all.Go(func() { errs[i] = r.run(ctx) })
		if *sigtermApart {
			all.Wait()
			for _, seat := range r.seats {
				must(t, seat.Kill())
			}
		}
	}
	all.Wait()
	half, total := map[time.Duration]map[string]time.Duration{}, map[string]time.Duration{}
	for i, r := range rows {
		if errs[i] != nil {
			for _, s := range r.seats {
				logged, _ := os.ReadFile(s.Log()) // for people
				t.Logf("%s:\n%s", s.pod.Name, logged)
			}
			t.Fatal(errs[i])
		}
		p50, p99 := percentileOf(r.took, 0.5), percentileOf(r.took, 0.99)
		t.Logf("%s %v, %s: work stopped to work started p50 %v p99 %v; to the first reconcile p50 %v p99 %v; %d rounds", *sigtermLate, r.late, r.kind,
			p50.Round(time.Millisecond), p99.Round(time.Millisecond), percentileOf(r.reconciled, 0.5).Round(time.Millisecond), percentileOf(r.reconciled, 0.99).Round(time.Millisecond), len(r.took))
		if half[r.late] == nil {
			half[r.late] = map[string]time.Duration{}
		}
		half[r.late][r.kind] = p50
		must(t, durations.Record(t.Name(), fmt.Sprintf("%s hands over, %v late", r.kind, r.late), p50))
		total[r.kind] += p50
	}
	if total["lasting"] > total["plain"]/3 {
		t.Errorf("the medians are %v in all, want a third of controller-runtime's %v at most", total["lasting"], total["plain"])
	}
	for late, by := range half {
		if *sigtermRounds >= 30 && by["lasting"] > by["plain"]/3 { // few rounds may all be lucky ones
			t.Errorf("answers %v late: a median of %v, want a third of controller-runtime's %v at most", late, by["lasting"], by["plain"])
		}
	}
}
