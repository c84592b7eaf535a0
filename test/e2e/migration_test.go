// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/test/testbed"
	"github.com/zonelect/zonelect/test/trial"
)

// mostGap is how long nobody may lead when the last legacy pod is replaced.
const mostGap = 2 * time.Second

// migration is one operator that moves off its leader-for-life ConfigMap and
// back, while everything else on the bed does the same.
type migration struct {
	*past
	lock    string
	variant string
	step    int

	mu    sync.Mutex
	seats []*trial.Seat
	ended map[*trial.Seat]time.Time // when its process was ended
}

// An operator is rolled pod by pod from each version of leader-for-life to
// zonelect, on to sealed, and back.
func TestAMigrationNeverHasTwoLeaders(t *testing.T) {
	b := trial.Bed(t, testbed.Config{Zones: threeZones, Network: testbed.Links})
	client, err := kubernetes.NewForConfig(b.RESTConfig("za"))
	must(t, err)
	p := &past{b, patience(t, 4*time.Minute), client}
	var all sync.WaitGroup
	for _, variant := range lifeVariants {
		all.Go(func() {
			t.Run(variant, func(t *testing.T) {
				m := &migration{past: p, lock: "op-" + variant, variant: variant, ended: map[*trial.Seat]time.Time{}}
				m.run(t)
				m.checkOverlaps(t)
			})
		})
	}
	all.Wait()
}

func (m *migration) run(t *testing.T) {
	var old, fresh []*trial.Seat
	for i, zone := range threeZones {
		old = append(old, m.start(t, trial.Legacy, zone, fmt.Sprintf("old-%d", i)))
		if i == 0 {
			m.await(t, old[0], "leading")
		}
	}
	// A rolling update: a new pod starts, then an old one goes; the leader last.
	for i, zone := range threeZones {
		fresh = append(fresh, m.start(t, trial.Zonelect, zone, fmt.Sprintf("new-%d", i)))
		time.Sleep(time.Second)
		if i < 2 {
			m.end(t, old[i+1])
		}
	}
	gone := m.end(t, old[0])
	leader := m.awaitLeader(t, gone, "the last legacy pod's end", fresh...)

	before := m.configMap(t)
	gone = m.end(t, leader)
	fresh = others(fresh, leader)
	leader = m.awaitLeader(t, gone, "a failover among candidates", fresh...)
	if after := m.configMap(t); after.UID != before.UID || len(after.OwnerReferences) == 0 {
		t.Errorf("the failover changed the ConfigMap: %+v", after.ObjectMeta)
	}

	m.phase(t, "sealed")
	m.awaitConfigMap(t, "sealed", func(cm *corev1.ConfigMap) bool { return cm != nil && len(cm.OwnerReferences) == 0 })
	stranger := m.start(t, trial.Legacy, "za", "stranger")
	time.Sleep(5 * time.Second)
	m.end(t, stranger)

	m.phase(t, "dual")
	m.awaitConfigMap(t, "given back", func(cm *corev1.ConfigMap) bool { return cm != nil && len(cm.OwnerReferences) > 0 })
	// Back: old pods start, new ones go.
	old = nil
	for i, zone := range threeZones {
		old = append(old, m.start(t, trial.Legacy, zone, fmt.Sprintf("again-%d", i)))
	}
	time.Sleep(time.Second)
	fresh = append(others(fresh, leader), leader)
	for _, s := range fresh {
		gone = m.end(t, s)
	}
	m.awaitLeader(t, gone, "the last candidate's end", old...)
}

// start runs a program in a pod of its own.
func (m *migration) start(t *testing.T, kind trial.Kind, zone, name string, more ...string) *trial.Seat {
	t.Helper()
	name = m.lock + "-" + name
	pod, err := m.AddPod(m.ctx, zone, name, "default", map[string]string{"app": m.lock})
	must(t, err)
	args := []string{"--variant", m.variant}
	if kind == trial.Zonelect {
		args = []string{"--mode", "auto", "--pod-name", name, "--pod-uid", string(pod.UID), "--node-name", pod.Spec.NodeName, "--selector", "app=" + m.lock}
	}
	s, err := trial.Start(m.ctx, m.Testbed, kind, zone, m.lock, name, append(args, more...)...)
	must(t, err)
	m.mu.Lock()
	m.seats = append(m.seats, s)
	m.mu.Unlock()
	m.await(t, s, "started")
	return s
}

// end kills a program and deletes its pod, as the end of a pod does, and
// returns when its pod was gone.
func (m *migration) end(t *testing.T, s *trial.Seat) time.Time {
	t.Helper()
	m.ended[s] = m.kill(t, s)
	pods := m.client.CoreV1().Pods("default")
	zero := int64(0)
	must(t, pods.Delete(m.ctx, s.Identity, metav1.DeleteOptions{GracePeriodSeconds: &zero}))
	return time.Now()
}

// awaitLeader waits for one of the seats to lead, and says how long nobody did.
func (m *migration) awaitLeader(t *testing.T, since time.Time, what string, seats ...*trial.Seat) *trial.Seat {
	t.Helper()
	ctx, cancel := context.WithTimeout(m.ctx, time.Minute)
	defer cancel()
	leader, e, err := trial.AwaitAny(ctx, seats, "leading", since)
	must(t, err)
	gap := e.Time.Sub(since)
	t.Logf("%s: %s leads %v after it", what, leader.Identity, gap.Round(time.Millisecond))
	if leader.Kind == trial.Zonelect && what == "the last legacy pod's end" && gap > mostGap {
		t.Errorf("nobody led for %v, want %v at most", gap, mostGap)
	}
	return leader
}

func (m *migration) configMap(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	cm, err := m.client.CoreV1().ConfigMaps("default").Get(m.ctx, m.lock, metav1.GetOptions{})
	must(t, err)
	return cm
}

func (m *migration) awaitConfigMap(t *testing.T, what string, ok func(*corev1.ConfigMap) bool) {
	t.Helper()
	var last *corev1.ConfigMap
	for start := time.Now(); time.Since(start) < 10*time.Second; time.Sleep(20 * time.Millisecond) {
		if last, _ = m.client.CoreV1().ConfigMaps("default").Get(m.ctx, m.lock, metav1.GetOptions{}); ok(last) {
			return
		}
	}
	t.Fatalf("the ConfigMap is not %s: %+v", what, last)
}

// phase advances the phase on the Lease, as a migration tool does.
func (m *migration) phase(t *testing.T, phase string) {
	t.Helper()
	m.step++
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"zonelect.dev/phase":%q,"zonelect.dev/phase-step":%q}}}`, phase, strconv.Itoa(m.step+1))
	_, err := m.client.CoordinationV1().Leases("default").Patch(m.ctx, m.lock, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	must(t, err)
}

func others(seats []*trial.Seat, s *trial.Seat) []*trial.Seat {
	return slices.DeleteFunc(slices.Clone(seats), func(o *trial.Seat) bool { return o == s })
}

// span is a time in which a program led.
type span struct {
	seat       *trial.Seat
	start, end time.Time
}

// checkOverlaps holds the terms of all programs against each other. Those of
// legacy programs among themselves are theirs to answer for.
func (m *migration) checkOverlaps(t *testing.T) {
	t.Helper()
	var spans []span
	for _, s := range m.seats {
		last := m.ended[s]
		if last.IsZero() {
			last = time.Now()
		}
		var open *span
		for _, e := range s.Events() {
			switch {
			case e.Event == "leading":
				spans = append(spans, span{s, e.Time, last})
				open = &spans[len(spans)-1]
			case open != nil && e.Event == "stopped":
				open.end, open = e.Time, nil
			}
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return a.start.Compare(b.start) })
	for i, a := range spans {
		for _, b := range spans[i+1:] {
			if b.start.Before(a.end) {
				report := t.Errorf
				if a.seat.Kind == trial.Legacy && b.seat.Kind == trial.Legacy {
					report = t.Logf
				}
				report("%s began to lead %v before %s had ended", b.seat.Identity, a.end.Sub(b.start), a.seat.Identity)
			}
		}
	}
	if len(spans) < 4 {
		t.Errorf("%d terms only: %+v", len(spans), spans)
	}
}

// seatIn starts a candidate in a pod of the zone, all of whose connections run
// to the apiserver of another.
func (m *migration) seatIn(t *testing.T, zone, apiserver string, args ...string) *trial.Seat {
	t.Helper()
	must(t, m.SteerVIP(zone, apiserver))
	return m.start(t, trial.Zonelect, zone, zone, args...)
}

func newMigration(t *testing.T) *migration {
	t.Helper()
	b := trial.Bed(t, testbed.Config{Zones: threeZones, Network: network()})
	client, err := kubernetes.NewForConfig(b.RESTConfig("zc"))
	must(t, err)
	return &migration{past: &past{b, patience(t, 4*time.Minute), client}, lock: "op", variant: "original", ended: map[*trial.Seat]time.Time{}}
}

func TestInPhaseDualAZonesLossIsFollowedAsTheLeaseEnds(t *testing.T) {
	m := newMigration(t)
	leader := m.seatIn(t, "za", "za")
	m.await(t, leader, "leading")
	follower := m.seatIn(t, "zb", "za")
	m.await(t, follower, "following")
	m.awaitConfigMap(t, "of both", func(cm *corev1.ConfigMap) bool { return cm != nil && len(cm.OwnerReferences) == 2 })
	must(t, m.SteerVIP("zb"))
	before := m.configMap(t)
	observer, err := trial.Observe(m.ctx, m.RESTConfig("zc"), m.lock)
	must(t, err)
	s := &stage{Testbed: m.Testbed, ctx: m.ctx, leader: leader, observer: observer}
	if lag := s.takeover(t, follower, s.lose(t, "za")); lag > 2*time.Second {
		t.Errorf("the follower led %v after the lease had ended, want 2s at most", lag)
	}
	if after := m.configMap(t); after.ResourceVersion != before.ResourceVersion {
		t.Error("the failover wrote the ConfigMap")
	}
}

func TestALegacyLeaderOnADeadNodeIsFollowedAfterTheGrace(t *testing.T) {
	const grace = 30 * time.Second
	m := newMigration(t)
	must(t, m.SteerVIP("za", "za"))
	old := m.start(t, trial.Legacy, "za", "old")
	m.await(t, old, "leading")
	var fresh []*trial.Seat
	for _, zone := range threeZones[1:] {
		fresh = append(fresh, m.seatIn(t, zone, zone, "--legacy-grace", grace.String()))
	}
	time.Sleep(25 * time.Second) // two heartbeats, so that they were seen to beat
	cut := time.Now()
	must(t, m.CutPower(m.ctx, "za"))
	leader, e, err := trial.AwaitAny(m.ctx, fresh, "leading", time.Time{})
	must(t, err)
	after := e.Time.Sub(cut)
	t.Logf("%s leads %v after the legacy leader's node lost power", leader.Identity, after)
	const heartbeat = 10 * time.Second
	if after < grace-heartbeat || after > grace+5*time.Second {
		t.Errorf("it leads %v after the power was lost, want about %v", after, grace)
	}
}

// Electors of client-go's old annotation locks and candidates that hold such a
// lock with the Lease take turns.
func TestCandidatesAndOldElectorsNeverLeadTogether(t *testing.T) {
	b := trial.Bed(t, plain)
	client, err := kubernetes.NewForConfig(b.RESTConfig("za"))
	must(t, err)
	p := &past{b, patience(t, 4*time.Minute), client}
	var all sync.WaitGroup
	for _, kind := range recordKinds {
		all.Go(func() {
			t.Run(kind, func(t *testing.T) {
				m := &migration{past: p, lock: "turns-" + kind, ended: map[*trial.Seat]time.Time{}}
				m.takeTurns(t, kind)
				m.checkOverlaps(t)
			})
		})
	}
	all.Wait()
}

func (m *migration) takeTurns(t *testing.T, kind string) {
	t.Helper()
	begin := func(program trial.Kind, n int) *trial.Seat {
		args := []string{"--kind", kind, "--lease-duration", "5s", "--renew-deadline", "3s", "--retry-period", "1s"}
		if program == trial.Zonelect {
			args = []string{"--mode", "dual", "--legacy-kind", strings.TrimPrefix(kind, "multilock-"), "--lease-duration", "5s", "--renew-deadline", "3s", "--renew-interval", "1s"}
		}
		s, err := trial.Start(m.ctx, m.Testbed, program, "za", m.lock, fmt.Sprintf("%s-%s-%d", m.lock, program, n), args...)
		must(t, err)
		m.seats = append(m.seats, s)
		return s
	}
	seats := []*trial.Seat{begin(trial.Legacy, 0)}
	m.await(t, seats[0], "leading")
	seats = append(seats, begin(trial.Zonelect, 1), begin(trial.Legacy, 2), begin(trial.Zonelect, 3))
	since := time.Time{}
	won := map[trial.Kind]int{}
	for round := range 8 {
		leader, e, err := trial.AwaitAny(m.ctx, seats, "leading", since)
		must(t, err)
		won[leader.Kind]++
		time.Sleep(time.Second)
		since = m.kill(t, leader)
		m.ended[leader] = since
		t.Logf("round %d: %s led from %s", round, leader.Identity, e.Time.Format("05.000"))
		seats = append(others(seats, leader), begin(leader.Kind, 4+round))
	}
	if won[trial.Legacy] == 0 || won[trial.Zonelect] == 0 {
		t.Errorf("only one kind ever led: %v", won)
	}
}
