// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/locks/annotation"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// electedMove is one operator that moves from an election record on an
// annotation to zonelect, and back.
type electedMove struct {
	*migration
	kind   string
	record *annotation.Lock
	holder *trial.Seat // the leader, as far as known
}

// An operator is rolled pod by pod from one of client-go's old annotation locks to
// zonelect, on to phase clean, and back.
func TestAMoveOffAnAnnotationNeverHasTwoLeaders(t *testing.T) {
	g := newGround(t, harmless, "annotation")
	rows := map[string]*electedMove{}
	for _, kind := range []string{"configmap", "multilock-endpoints"} {
		rows[kind] = &electedMove{migration: newMigration(g, "move-"+kind), kind: kind}
	}
	atOnce(t, rows, func(t *testing.T, m *electedMove) {
		var err error
		m.record, err = annotation.New(annotation.Config{
			Client: g.client.CoreV1().RESTClient(), Kind: annotation.Kind(strings.Replace(m.resource(), "configmap", "configmaps", 1)),
			Namespace: g.namespace, Name: m.lock,
		})
		must(t, err)
		m.run(t)
		m.checkOverlaps(t)
	})
}

// resource is configmap or endpoints.
func (m *electedMove) resource() string { return strings.TrimPrefix(m.kind, "multilock-") }

func (m *electedMove) run(t *testing.T) {
	var old, fresh []*trial.Seat
	for i, zone := range threeZones {
		old = append(old, m.begin(t, trial.Legacy, zone, fmt.Sprint("old-", i)))
		if i == 0 {
			await(t, old[0], "leading", time.Time{})
		}
	}
	// A rolling update: a new pod starts, then an old one goes; the leader last.
	for i, zone := range threeZones {
		fresh = append(fresh, m.begin(t, trial.Zonelect, zone, fmt.Sprint("new-", i)))
		time.Sleep(time.Second)
		if i < 2 {
			m.end(t, old[i+1])
		}
	}
	m.fails(t, "the last legacy leader's end", old[0], fresh...)
	m.fails(t, "a failover in phase dual", m.holder, fresh...)

	m.phase(t, 1, "clean")
	m.awaitRecord(t, "")
	fresh = append(fresh, m.begin(t, trial.Zonelect, "za", "new-3"))
	time.Sleep(2 * time.Second)
	m.fails(t, "a failover in phase clean", m.holder, fresh...)
	m.awaitRecord(t, "")

	m.phase(t, 2, "dual")
	m.awaitRecord(t, m.holder.Identity)
	for i, zone := range threeZones {
		old = append(old, m.begin(t, trial.Legacy, zone, fmt.Sprint("again-", i)))
	}
	time.Sleep(10 * time.Second) // longer than a lease
	m.leadsOn(t)

	m.phase(t, 3, "legacy")
	last := m.holder
	stopped := await(t, last, "stopped", time.Time{})
	m.holder = m.awaitLeader(t, stopped.Time, "the step back to legacy", old[3:]...)
	for _, s := range fresh {
		if m.ended[s.Identity].IsZero() {
			m.end(t, s)
		}
	}
	time.Sleep(2 * time.Second)
	m.leadsOn(t)
}

// begin runs a program in a new pod.
func (m *electedMove) begin(t *testing.T, kind trial.Kind, zone, name string) *trial.Seat {
	t.Helper()
	args := []string{"--kind", m.kind}
	if kind == trial.Zonelect {
		args = []string{"--mode=auto", "--legacy-kind", m.resource()}
	}
	return m.enter(t, kind, zone, name, append(args, quickly...)...)
}

// fails ends the leading program, and waits for another one to lead.
func (m *electedMove) fails(t *testing.T, what string, leader *trial.Seat, next ...*trial.Seat) {
	t.Helper()
	gone := m.end(t, leader)
	m.holder = m.awaitLeader(t, gone, what, next...)
}

// leadsOn checks that the leader's term is the one that was won last.
func (m *electedMove) leadsOn(t *testing.T) {
	t.Helper()
	var last string
	for _, e := range m.holder.Events() {
		if e.Event == "leading" || e.Event == "stopping" || e.Event == "stopped" {
			last = e.Event
		}
	}
	if last != "leading" {
		t.Errorf("%s leads no more, the last of it is %q", m.holder.Identity, last)
	}
}

// awaitRecord waits until the legacy object's record has this holder, or none.
// The object must exist, and the leader's term must go on.
func (m *electedMove) awaitRecord(t *testing.T, holder string) {
	t.Helper()
	until(t, fmt.Sprintf("the legacy record is held by %q", holder), func() bool {
		now, err := m.record.Read(t.Context())
		must(t, err)
		return now.Version.Exists() && now.Record.Holder == holder
	})
	m.leadsOn(t)
}

// phase changes the phase on the Lease by hand, for the change-th time.
func (m *migration) phase(t *testing.T, change int, phase string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"zonelect.dev/phase":%q,"zonelect.dev/phase-step":%q}}}`, phase, strconv.Itoa(change+1))
	leases := m.client.CoordinationV1().Leases(m.namespace)
	_, err := leases.Patch(t.Context(), m.lock, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	must(t, err)
}
