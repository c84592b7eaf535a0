// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"encoding/json"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// migration is one operator that moves off its legacy lock and back.
type migration struct {
	*ground
	lock  string
	seats []*trial.Seat
	ended map[string]time.Time // when programs were killed, by identity
}

func newMigration(g *ground, lock string) *migration {
	return &migration{ground: g, lock: lock, ended: map[string]time.Time{}}
}

// forLife is operator-lib's own program, where that can run.
func forLife() trial.Kind {
	if runtime.GOOS == "linux" && os.Geteuid() == 0 {
		return trial.Become
	}
	return trial.Legacy
}

// enter runs a program in a new pod, and waits until it has started.
func (m *migration) enter(t *testing.T, kind trial.Kind, zone, name string, args ...string) *trial.Seat {
	t.Helper()
	var s *trial.Seat
	if kind == trial.Zonelect {
		s = m.inPod(t, zone, m.lock, m.lock+"-"+name, args...)
	} else {
		_, err := m.Cluster.AddPod(t.Context(), zone, m.named(m.lock+"-"+name), m.namespace, map[string]string{"app": m.lock})
		must(t, err)
		s = m.seat(t, kind, zone, m.lock, m.lock+"-"+name, args...)
	}
	m.seats = append(m.seats, s)
	await(t, s, "started", time.Time{})
	return s
}

// end kills a program and removes its pod, and returns the time when it was gone.
func (m *migration) end(t *testing.T, s *trial.Seat) time.Time {
	t.Helper()
	m.ended[s.Identity] = m.kill(t, s)
	removePod(t, m.client, m.namespace, s.Identity)
	return time.Now()
}

// rename gives a program's pod other labels, as an upgrade does that renames the Deployment.
func (m *migration) rename(t *testing.T, s *trial.Seat) {
	t.Helper()
	before := []byte(`{"metadata":{"labels":{"app":"before"}}}`)
	pods := m.client.CoreV1().Pods(m.namespace)
	_, err := pods.Patch(t.Context(), s.Identity, types.MergePatchType, before, metav1.PatchOptions{})
	must(t, err)
}

// awaitLeader waits until one of the seats leads, and logs how long nobody did.
func (m *migration) awaitLeader(t *testing.T, since time.Time, what string, seats ...*trial.Seat) *trial.Seat {
	t.Helper()
	leader, e := awaitAny(t, seats, "leading", since)
	t.Logf("%s: %s leads %v after it", what, leader.Identity, e.Time.Sub(since).Round(time.Millisecond))
	return leader
}

// awaitConfigMap waits until ok holds for the ConfigMap; nil means absent. It returns that.
func (m *migration) awaitConfigMap(t *testing.T, what string, ok func(*corev1.ConfigMap) bool) (cm *corev1.ConfigMap) {
	t.Helper()
	until(t, "the ConfigMap is "+what, func() bool {
		var err error
		cm, err = m.client.CoreV1().ConfigMaps(m.namespace).Get(t.Context(), m.lock, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			cm, err = nil, nil
		}
		return err == nil && ok(cm)
	})
	return cm
}

// checkOverlaps fails for overlapping terms of different programs, unless both
// are legacy ones, and for a history that shows too little.
func (m *migration) checkOverlaps(t *testing.T) {
	t.Helper()
	h := termsOf(m.seats, m.ended)
	judgeOverlaps(t, h)
	if len(h) < 4 {
		t.Errorf("%d terms only: %+v", len(h), h)
	}
}

// The kubectl plugin takes a migration all the way there and back. At its end the shield goes with the
// last candidate's pod.
func TestAMigrationIsRunFromTheCommandLine(t *testing.T) {
	g := newGround(t, harmless, "migration")
	m := newMigration(g, "op")
	run, stranger := g.person(t, "migrator", "status", "migrate"), g.person(t, "stranger")
	stranger(exitError, "status op", `needs verb "get" on leases`, "ClusterRole zonelect-status grants that")
	stranger(exitError, "migrate plan op", "ClusterRole zonelect-migrate grants that")
	run(exitError, "status op", "there is no lock op")
	run(exitUsage, "status -o nonsense", "allowed formats are")
	old := m.enter(t, forLife(), "za", "old")
	await(t, old, "leading", time.Time{})
	run(exitOK, "status op", "absent", "legacy", "pod/"+old.Identity)
	run(exitRefused, "migrate advance op --yes", "order", "roll out")

	auto := append([]string{"--mode=auto", "--selector=app=op"}, quickly...)
	first := m.enter(t, trial.Zonelect, "zb", "new-0", auto...)
	second := m.enter(t, trial.Zonelect, "zc", "new-1", auto...)
	awaitAny(t, []*trial.Seat{first, second}, "following", time.Time{})
	until(t, "both have announced themselves, and one says what it waits for", func() bool {
		list, err := g.client.CoordinationV1().Leases(g.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "zonelect.dev/lock=op"})
		says := func(l coordinationv1.Lease) bool {
			return strings.Contains(l.Annotations[record.AnnotationWaits], old.Identity)
		}
		return err == nil && len(list.Items) == 2 && slices.ContainsFunc(list.Items, says)
	})
	run(exitRefused, "migrate advance op --yes -l app=op", "armed", "legacy-pods", "FAILED")
	run(exitOK, "status", "waiting", "dual", "zb:1,zc:1", "pod/"+old.Identity,
		"legacy pods that may still lead: ", old.Identity+" (alive)") // and the second's, if it was counted before it had announced itself
	leader := m.awaitLeader(t, m.end(t, old), "the last legacy pod's end", first, second)

	var status struct {
		Status struct {
			State  string
			Phase  string
			Leader struct {
				Identity, Zone string
				Token          uint64
			}
			Candidates []struct{ Zone string }
			Legacy     struct {
				Kind  string
				Armed bool
			}
		}
	}
	must(t, json.Unmarshal([]byte(run(exitOK, "status op -o json")), &status))
	s := status.Status
	if s.State != "held" || s.Phase != "dual" || s.Leader.Identity != leader.Identity || s.Leader.Zone != leader.Zone || s.Leader.Token == 0 ||
		len(s.Candidates) != 2 || s.Legacy.Kind != "shield" || !s.Legacy.Armed {
		t.Errorf("the status is %+v", s)
	}

	run(exitOK, "migrate plan op -l app=op", "advance, to phase sealed", "op is shield")
	run(exitOK, "migrate advance op -l app=op --dry-run", "could go from phase dual to sealed")
	run(exitRefused, "migrate advance op -l app=op", "--yes takes the step")
	run(exitOK, "migrate advance op -l app=op --to sealed --yes", "went from phase dual to sealed", "have followed")
	m.awaitConfigMap(t, "sealed", func(cm *corev1.ConfigMap) bool { return cm != nil && len(cm.OwnerReferences) == 0 })
	run(exitOK, "status op", "sealed")
	run(exitRefused, "migrate clean op -l app=op --yes", "no-way-back")
	run(exitOK, "migrate rollback op -l app=op --yes", "went from phase sealed to dual", "have followed")
	run(exitRefused, "migrate rollback op -l app=op --yes", "without a legacy pod nobody leads")
	again := m.enter(t, forLife(), "za", "again")
	back := time.Now()
	run(exitOK, "migrate rollback op -l app=op --to legacy --yes", "went from phase dual to legacy", "have followed")
	m.awaitLeader(t, back, "the step back to legacy", again)
	run(exitOK, "status op", "released", "legacy", "pod/"+again.Identity)
	m.rename(t, again)

	run(exitOK, "migrate advance op -l app --to dual --yes --wait=false", "went from phase legacy to dual")
	until(t, "a candidate holds the Lease", func() bool {
		lease := leaseOf(t, g.client, g.namespace, m.lock)
		return (holder(lease) == first.Identity || holder(lease) == second.Identity) &&
			strings.Contains(lease.Annotations["zonelect.dev/legacy-holders"], again.Identity)
	})
	m.awaitLeader(t, m.end(t, again), "the last legacy pod's end", first, second)
	m.awaitConfigMap(t, "the shield of both", func(cm *corev1.ConfigMap) bool { return cm != nil && len(cm.OwnerReferences) == 2 })
	// The selector did not match the old leader, whose pod is gone, and does not match another old one.
	hidden := m.enter(t, forLife(), "za", "hidden")
	m.rename(t, hidden)
	run(exitRefused, "migrate advance op -l app=op --yes", "selector", again.Identity)
	run(exitRefused, "migrate advance op -l app --yes", "legacy-pods", hidden.Identity)
	m.end(t, hidden)
	run(exitOK, "migrate plan op -l app", "it matches all of 2")
	m.end(t, first)
	m.end(t, second)
	m.awaitConfigMap(t, "collected", func(cm *corev1.ConfigMap) bool { return cm == nil })
	m.checkOverlaps(t)
}
