// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// TestWhatALostZoneLedIsLedFromTheOthers: zone za leads an election by operator.Run, three locks of an
// operator.Group, a manager of controller-runtime, and a lock beside its shield. It loses its power, with all
// connections of all candidates. Each lock is led again, no sooner than a lease after the last renewal.
func TestWhatALostZoneLedIsLedFromTheOthers(t *testing.T) {
	g := newGround(t, losesPower, "power")
	status := g.person(t, "watcher", "status")
	const shared = 3 // locks of the Group
	locks := []string{"run", "beside-shield", "manager"}
	for i := range shared {
		locks = append(locks, fmt.Sprint("group-", i))
	}
	terms := map[string]func() []term{}
	for _, lock := range locks {
		terms[lock] = g.follow(t, g.namespace, lock)
	}
	seats := map[string][]*trial.Seat{} // by zone
	enter := func(zone, event string) {
		t.Helper()
		var mu sync.Mutex
		var all sync.WaitGroup
		for _, begin := range []func() *trial.Seat{
			func() *trial.Seat { return g.inPod(t, zone, "run", "run-"+zone) },
			func() *trial.Seat {
				return g.inPod(t, zone, "group", "group-"+zone, "--locks", fmt.Sprint(shared), "--shared")
			},
			func() *trial.Seat {
				return g.inPod(t, zone, "beside-shield", "beside-shield-"+zone, "--mode=auto", "--selector=app=beside-shield")
			},
			func() *trial.Seat { return g.seat(t, trial.Manager, zone, "manager", "manager-"+zone) },
		} {
			all.Go(func() {
				s := begin()
				if s.Kind == trial.Manager && event == "following" {
					await(t, s, "started", time.Time{}) // and it prints no more until it leads
				} else {
					await(t, s, event, time.Time{})
				}
				mu.Lock()
				defer mu.Unlock()
				seats[zone] = append(seats[zone], s)
			})
		}
		all.Wait()
	}
	leads := func(zone string) bool {
		return !slices.ContainsFunc(locks, func(lock string) bool {
			all := terms[lock]()
			return len(all) == 0 || !slices.ContainsFunc(seats[zone], func(s *trial.Seat) bool { return s.Identity == all[len(all)-1].holder })
		})
	}
	must(t, g.Network.SteerVIP("za", "za"))
	enter("za", "leading")
	until(t, "za leads all", func() bool { return leads("za") })
	must(t, g.Network.SteerVIP("zb", "za")) // the worst case: the followers' connections die too
	enter("zb", "following")
	enter("zc", "following")
	m := newMigration(g, "beside-shield")
	shield := m.awaitConfigMap(t, "the shield of all", func(cm *corev1.ConfigMap) bool { return cm != nil && len(cm.OwnerReferences) == 3 })
	until(t, "renewals have the tokens", func() bool {
		return !slices.ContainsFunc(locks, func(lock string) bool { return terms[lock]()[0].token == 0 })
	})
	must(t, g.Network.SteerVIP("za"))
	must(t, g.Network.SteerVIP("zb"))

	t.Cleanup(func() { must(t, g.Restore(context.Background(), "za")) }) // for the next test, whatever happens
	cut := time.Now()
	must(t, g.CutPower(t.Context(), "za"))
	until(t, "the others lead all", func() bool {
		return !slices.ContainsFunc(locks, func(lock string) bool {
			all := terms[lock]()
			last := all[len(all)-1]
			return last.token == 0 || slices.ContainsFunc(seats["za"], func(s *trial.Seat) bool { return s.Identity == last.holder })
		})
	})
	t.Logf("all are led again %v after the power was cut", time.Since(cut).Round(time.Millisecond))
	for _, lock := range locks {
		judgeTerms(t, terms[lock](), timing.DefaultLeaseDuration)
	}
	now := m.awaitConfigMap(t, "there", func(cm *corev1.ConfigMap) bool { return cm != nil })
	if now.ResourceVersion != shield.ResourceVersion {
		t.Error("the failover wrote the shield")
	}

	for _, lock := range locks {
		all := terms[lock]()
		status(exitOK, "status "+lock, "held", all[len(all)-1].holder)
	}
	must(t, g.Restore(t.Context(), "za"))
	again := g.inPod(t, "za", "run", "run-za-again")
	all := terms["run"]()
	if e := await(t, again, "following", time.Time{}); e.Leader != all[len(all)-1].holder {
		t.Errorf("after the zone came back its candidate follows %q, want %q", e.Leader, all[len(all)-1].holder)
	}
}
