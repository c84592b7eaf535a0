// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/test/kit/durations"
	"github.com/zonelect/zonelect/test/kit/manifests"
	"github.com/zonelect/zonelect/test/kit/scaffold"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

var sigtermRounds = flag.Int("sigterm-rounds", 6, "how often each leader of a scaffold is told to end")

// rollouts are the three replicas of an operator, one of which leads and is told to end, round after
// round.
type rollouts struct {
	*ground
	kind    string
	late    time.Duration // each request
	program string
	seats   []*trial.Seat
	started int
	took    []time.Duration // from the end of the work to the beginning of the next leader's
}

// enter makes a pod in the zone that the last one left, and runs its program with the pod's token.
func (r *rollouts) enter(t *testing.T) {
	lock, zone := fmt.Sprintf("%s-%d", r.kind, r.late.Milliseconds()), threeZones[r.started%len(threeZones)]
	pod := testbed.PodManifest(zone, fmt.Sprintf("%s-%d", lock, r.started), r.namespace, nil)
	r.started++
	pod.Spec.ServiceAccountName = "controller-manager"
	pod, err := r.client.CoreV1().Pods(r.namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	must(t, err)
	spec, err := processOf(t.Context(), r.Testbed, r.client, pod, "za", r.program)
	must(t, err)
	spec.Args = []string{"--lock", lock, "--identity", pod.Name, "--bare", "--late", r.late.String(), "--" + r.kind}
	p, err := r.StartProcess("za", spec)
	must(t, err)
	r.seats = append(r.seats, trial.Seated(p, trial.Manager, zone, pod.Name))
}

func (r *rollouts) run(t *testing.T) {
	for range threeZones {
		r.enter(t)
	}
	leader, _ := awaitAny(t, r.seats, "leading", time.Time{})
	for range *sigtermRounds {
		time.Sleep(4*time.Second + rand.N(2*time.Second)) // all candidates look at the lock at other moments each time
		asked := time.Now()
		must(t, leader.Terminate())
		stopped := await(t, leader, "stopped", asked)
		next, e := awaitAny(t, r.seats, "leading", asked)
		r.took = append(r.took, e.Time.Sub(stopped.Time))
		_ = leader.Wait(patience(t, soon)) // as it was told to
		r.seats = slices.DeleteFunc(r.seats, func(s *trial.Seat) bool { return s == leader })
		removePod(t, r.client, r.namespace, leader.Identity)
		r.enter(t)
		leader = next
	}
	slices.Sort(r.took)
}

// TestAScaffoldsLeaderHandsOverWithoutConfiguration: no variable is set, and only the rights of the
// Roles that kubebuilder generates are granted. Three replicas are told to end in turn, as in a rollout, on
// a server that requests take 5, 20 and 50 ms to reach, beside controller-runtime's own election, which releases
// too, in one run.
func TestAScaffoldsLeaderHandsOverWithoutConfiguration(t *testing.T) {
	g := ownGround(t, testbed.Config{Zones: threeZones, Network: testbed.Links})
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "controller-manager"}}
	_, err := g.client.CoreV1().ServiceAccounts(g.namespace).Create(t.Context(), account, metav1.CreateOptions{})
	must(t, err)
	project := manifests.Kustomize(t, filepath.Join(scaffold.New(t, false), "config", "default"))
	roles := manifests.Pick[rbacv1.Role](t, project, "Role")
	if len(roles) != 1 {
		t.Fatalf("the scaffold has %d Roles, want that of the election alone", len(roles))
	}
	allow(t, g.client, g.namespace, "leader-election", serviceAccount(g.namespace, "controller-manager"), roles[0].Rules...)
	program, err := testbed.BuildProgram(t.Context(), "./test/programs/manager")
	must(t, err)
	rows := map[string]*rollouts{}
	for _, late := range []time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond} {
		for _, kind := range []string{"lasting", "plain"} {
			rows[fmt.Sprint(kind, " ", late)] = &rollouts{ground: g, kind: kind, late: late, program: program}
		}
	}
	atOnce(t, rows, func(t *testing.T, r *rollouts) { r.run(t) })
	total := map[string]time.Duration{}
	for _, r := range rows {
		if len(r.took) < *sigtermRounds {
			continue // it has failed
		}
		p50, p99 := r.took[len(r.took)/2], r.took[len(r.took)*99/100]
		t.Logf("requests %v late, %s: work stopped to work started p50 %v p99 %v; %d rounds", r.late, r.kind, p50, p99, len(r.took))
		must(t, durations.Record(t.Name(), fmt.Sprintf("%s hands over, %v late", r.kind, r.late), p50))
		total[r.kind] += p50
	}
	if total["lasting"] > total["plain"]/3 {
		t.Errorf("the medians are %v in all, want a third of controller-runtime's %v at most", total["lasting"], total["plain"])
	}
}
