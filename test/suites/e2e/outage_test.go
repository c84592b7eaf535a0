// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// TestALastingManagerOutlivesAnOutageOfTheAPI: all API servers stand still for longer than a lease, and are then
// started anew. No process ends, and what was made after that is reconciled.
func TestALastingManagerOutlivesAnOutageOfTheAPI(t *testing.T) {
	g := newGround(t, losesTheAPI, "outage")
	lock := g.named("lasting")
	var managers, runs []*trial.Seat
	for _, zone := range threeZones {
		managers = append(managers, g.seat(t, trial.Manager, zone, lock, "lasting-"+zone, "--lasting"))
		runs = append(runs, g.inPod(t, zone, "run", "run-"+zone))
	}
	for _, s := range append(managers, runs...) {
		await(t, s, "started", time.Time{})
	}
	awaitAny(t, managers, "leading", time.Time{})
	before, _ := awaitAny(t, runs, "leading", time.Time{})
	g.reconciled(t, lock)
	token := func(namespace, lock string) (token uint64) {
		until(t, "the token of "+lock+" can be read", func() bool {
			lease, err := g.client.CoordinationV1().Leases(namespace).Get(t.Context(), lock, metav1.GetOptions{})
			if err == nil {
				token, err = strconv.ParseUint(lease.Annotations["zonelect.dev/token"], 10, 64)
			}
			return err == nil
		})
		return token
	}
	was, ran := token("default", lock), token(g.namespace, "run")

	began := time.Now()
	must(t, g.Parts.Pause(testbed.APIServer))
	time.Sleep(timing.DefaultLeaseDuration + 5*time.Second)
	var all sync.WaitGroup
	for _, zone := range threeZones {
		all.Go(func() {
			if err := g.Parts.RestartAPIServer(t.Context(), zone); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	over := time.Now()
	await(t, before, "stopping", began)
	_, e := awaitAny(t, runs, "leading", began)
	g.reconciled(t, lock)
	if now := token("default", lock); e.Token <= ran || now < was {
		t.Errorf("after the outage the tokens are %d and %d, and were %d and %d", e.Token, now, ran, was)
	}
	t.Logf("something that was made after an outage of %v is reconciled %v after it", over.Sub(began).Round(time.Millisecond), time.Since(over).Round(time.Millisecond))
	judgeOverlaps(t, termsOf(managers, nil))
	judgeOverlaps(t, termsOf(runs, nil))
	for _, s := range append(managers, runs...) {
		select {
		case <-s.Done():
			t.Errorf("%s ended", s.Identity)
		default:
		}
	}
}

// reconciled makes something that a manager must reconcile, and waits for that.
func (g *ground) reconciled(t *testing.T, lock string) {
	t.Helper()
	maps, made := g.client.CoreV1().ConfigMaps("default"), ""
	until(t, "something is made", func() bool {
		cm, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "thing-", Labels: map[string]string{"lock": lock}}}, metav1.CreateOptions{})
		if err == nil {
			made = cm.Name
		}
		return err == nil
	})
	until(t, made+" is reconciled", func() bool {
		cm, err := maps.Get(t.Context(), made, metav1.GetOptions{})
		return err == nil && cm.Annotations["test.zonelect.dev/reconciled-by"] != ""
	})
}
