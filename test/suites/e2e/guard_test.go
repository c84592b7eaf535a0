// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !long

package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// guardRuns is how many leaders are stopped: in pairs, one with a guard and one
// without. ZONELECT_GUARD_RUNS sets another number.
const guardRuns = 4

// A leader is stopped for two leases, in the middle of a loop of writes that
// does not check its context. It is resumed when another candidate leads.
func TestS12AGuardedLeaderThatWasStoppedWritesNothingWhenItRunsAgain(t *testing.T) {
	runs := fromEnv(t, "ZONELECT_GUARD_RUNS", guardRuns)
	b := trial.Bed(t, plain)
	client, err := kubernetes.NewForConfig(b.Cluster.RESTConfig("za"))
	must(t, err)
	ctx := patience(t, time.Duration(runs)*30*time.Second+2*time.Minute)
	late := map[bool]int{}
	for round := 0; round < runs; round += guardRuns {
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range min(guardRuns, runs-round) {
			for _, guard := range []bool{true, false} {
				all.Go(func() {
					n := stopAndGo(t, ctx, b, client, fmt.Sprintf("run-%d-guard-%t", round+i, guard), guard)
					mu.Lock()
					defer mu.Unlock()
					late[guard] += n
				})
			}
		}
		all.Wait()
	}
	t.Logf("writes of a deposed leader after its successor's first moment, in %d runs each: %d with the guard, %d without", runs, late[true], late[false])
	// Now and then a process is stopped while a write is between the guard and the wire.
	if late[true] > max(1, runs/25) {
		t.Errorf("%d writes got past the guard", late[true])
	}
	if late[false] == 0 {
		t.Error("without the guard nothing was late either: this test shows nothing")
	}
}

// stopAndGo returns how many writes of the stopped leader reached the API
// server after another candidate had acquired the lock.
func stopAndGo(t *testing.T, ctx context.Context, b *testbed.Testbed, client kubernetes.Interface, lock string, guard bool) int {
	const lease = 6 * time.Second
	begin := func(name string) *trial.Seat {
		s, err := trial.Start(t.Context(), b, trial.Zonelect, "za", lock, lock+"-"+name,
			"--lease-duration", lease.String(), "--renew-deadline", "4s", "--renew-interval", "1s",
			"--register", lock, "--register-interval", "2ms", "--register-deaf", "100", fmt.Sprintf("--guard=%t", guard))
		must(t, err)
		return s
	}
	old := begin("old")
	defer func() { _ = old.Kill() }()
	_, err := old.Await(ctx, "leading", time.Time{})
	must(t, err)
	next := begin("next")
	defer func() { _ = next.Kill() }()
	_, err = next.Await(ctx, "following", time.Time{})
	must(t, err)
	revisions, err := client.CoreV1().ConfigMaps("default").Watch(ctx, metav1.SingleObject(metav1.ObjectMeta{Name: lock}))
	must(t, err)
	defer revisions.Stop()
	written := collect[*corev1.ConfigMap](revisions)

	time.Sleep(time.Duration(rand.IntN(int(100 * time.Millisecond))))
	must(t, old.Pause())
	paused := time.Now()
	led, err := next.Await(ctx, "leading", paused)
	must(t, err)
	time.Sleep(time.Until(paused.Add(2 * lease)))
	resumed := time.Now()
	must(t, old.Resume())
	_, err = old.Await(ctx, "stopped", resumed)
	must(t, err)
	time.Sleep(200 * time.Millisecond) // writes in flight arrive
	last, err := client.CoreV1().ConfigMaps("default").Get(ctx, lock, metav1.GetOptions{})
	must(t, err)
	shown := func(cm *corev1.ConfigMap) bool { return cm.ResourceVersion == last.ResourceVersion }
	for !slices.ContainsFunc(written(), shown) {
		must(t, sleep.For(ctx, 10*time.Millisecond))
	}
	late, before := 0, 0
	for _, cm := range written() {
		revision, err := strconv.ParseUint(cm.ResourceVersion, 10, 64)
		must(t, err)
		switch {
		case cm.Data["identity"] != old.Identity:
		case revision > led.Token:
			late++
		default:
			before++
		}
	}
	if before == 0 {
		t.Errorf("%s wrote nothing before it was stopped", old.Identity)
	}
	return late
}
