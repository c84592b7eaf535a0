// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/operator"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// present is a candidate in mode lease.
type present struct {
	*operator.Election
	pod  *corev1.Pod
	stop func()

	mu    sync.Mutex
	peers []string // the peers for its last takeover delay
}

// takeoverDelay notes which peers are known.
func (a *present) takeoverDelay(o election.Takeover) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.peers = nil
	for _, p := range o.Peers {
		a.peers = append(a.peers, p.Zone)
	}
	return 0
}

func (a *present) knew() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.peers)
}

// TestEverybodyKnowsWhoIsThere: candidates in mode lease have presences. The
// other candidates and status know them, and they go with their pods.
func TestEverybodyKnowsWhoIsThere(t *testing.T) {
	b := trial.Bed(t, testbed.Config{Zones: threeZones, Network: testbed.Links})
	ctx := patience(t, 2*time.Minute)
	client, err := kubernetes.NewForConfig(b.Cluster.RESTConfig("zc"))
	must(t, err)
	path, err := testbed.BuildProgram(ctx, "./cmd/kubectl-zonelect")
	must(t, err)
	p := plugin{path: path, kubeconfig: b.Cluster.Kubeconfig("zc")}
	until := func(what string, so func() bool) {
		t.Helper()
		for late := time.Now().Add(soon); !so(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(late) {
				t.Fatalf("not so: %s", what)
			}
		}
	}
	presences := func() map[string]presence.Object {
		all, err := presence.List(ctx, client.CoordinationV1().RESTClient(), "default", "op")
		must(t, err)
		byZone := map[string]presence.Object{}
		for _, o := range all {
			byZone[o.Zone] = o
		}
		return byZone
	}

	seats := map[string]*present{}
	for _, zone := range threeZones {
		seats[zone] = attend(t, ctx, b, zone)
		if zone == "za" {
			until("the first leads", func() bool { return seats[zone].Status().State == status.StateLeader })
		}
	}
	until("all have presences", func() bool { return len(presences()) == 3 })
	for zone, o := range presences() {
		if seat := seats[zone]; o.Identity != seat.Status().Identity || o.Node != testbed.NodeName(zone) || o.Mode != "lease" || o.Version != "v7" || o.Pod.UID != seat.pod.UID || o.Name == seat.pod.Name {
			t.Errorf("the presence in zone %s says %+v", zone, o)
		}
	}
	until("the pods are Ready", func() bool {
		pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=op"})
		must(t, err)
		return !slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return pod.Status.Phase != corev1.PodRunning })
	})
	if said := p.run(t, ctx, exitOK, "status op -o jsonpath={.status.warnings}{.status.notes}"); said != "" {
		t.Errorf("when all is well status says %s", said)
	}
	p.run(t, ctx, exitOK, "status op", "za:1,zb:1,zc:1", "Ready", "v7", "lease")

	first := presences()["zb"]
	must(t, client.CoordinationV1().Leases("default").Delete(ctx, first.Name, metav1.DeleteOptions{}))
	until("one that a hand deleted is recreated", func() bool {
		now, there := presences()["zb"]
		return there && now.UID != first.UID
	})

	time.Sleep(3 * time.Second) // until the others have heard of it, too
	seats["za"].stop()
	must(t, client.CoreV1().Pods("default").Delete(ctx, seats["za"].pod.Name, metav1.DeleteOptions{}))
	until("a presence goes with its pod", func() bool {
		return slices.Equal(slices.Sorted(maps.Keys(presences())), []string{"zb", "zc"})
	})
	leader := ""
	until("another leads", func() bool {
		for zone, seat := range seats {
			if seat.Status().State == status.StateLeader {
				leader = zone
			}
		}
		return leader != ""
	})
	if knew := seats[leader].knew(); !slices.Contains(knew, "zb") || !slices.Contains(knew, "zc") {
		t.Errorf("when the candidate in zone %s took over it knew of those in %q", leader, knew)
	}
	p.run(t, ctx, exitOK, "status op", "zb:1,zc:1", "zone za has nodes and no candidate")
	other := map[string]string{"zb": "zc", "zc": "zb"}[leader]
	seats[other].stop()
	must(t, client.CoreV1().Pods("default").Delete(ctx, seats[other].pod.Name, metav1.DeleteOptions{}))
	until("one is left", func() bool { return len(presences()) == 1 })
	p.run(t, ctx, exitOK, "status op", "only one candidate has announced itself", "nobody takes over from "+seats[leader].Status().Identity)
}

// attend starts a candidate in a new pod.
func attend(t *testing.T, ctx context.Context, b *testbed.Testbed, zone string) *present {
	t.Helper()
	pod, err := b.Cluster.AddPod(ctx, zone, "op-"+zone, "default", map[string]string{"app": "op"})
	must(t, err)
	a := &present{pod: pod}
	a.Election, err = operator.New(ctx, "op", operator.Options{
		Config: b.Cluster.RESTConfig(zone), Namespace: "default", Timing: quick, Version: "v7", NoEvents: true, TakeoverDelay: a.takeoverDelay,
		Self: operator.SelfOptions{
			Identity: fmt.Sprintf("op-%s_%d", zone, time.Now().UnixMicro()), Zone: zone,
			Node: pod.Spec.NodeName, PodName: pod.Name, PodUID: string(pod.UID),
		},
	})
	must(t, err)
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan error, 1)
	go func() {
		over <- a.Run(ctx, func(ctx context.Context, _ election.Term) error { <-ctx.Done(); return nil })
	}()
	a.stop = sync.OnceFunc(func() { cancel(); <-over })
	t.Cleanup(a.stop)
	return a
}
