// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

var recordKinds = []string{"configmap", "endpoints", "multilock-configmap", "multilock-endpoints"}

func TestALegacyLeaderOnADeadNodeIsFollowedAfterTheGrace(t *testing.T) {
	const grace = 30 * time.Second
	g := ownGround(t, testbed.Config{Network: network()})
	m := newMigration(g, "op")
	must(t, g.Network.SteerVIP("za", "za"))
	old := m.enter(t, forLife(), "za", "old")
	await(t, old, "leading", time.Time{})
	var fresh []*trial.Seat
	for _, zone := range threeZones[1:] {
		must(t, g.Network.SteerVIP(zone, zone))
		fresh = append(fresh, m.enter(t, trial.Zonelect, zone, zone, "--mode=auto", "--selector=app=op", "--legacy-grace", grace.String()))
	}
	time.Sleep(25 * time.Second) // two heartbeats, so that the nodes have been seen to beat
	cut := time.Now()
	must(t, g.CutPower(t.Context(), "za"))
	leader, e := awaitAny(t, fresh, "leading", time.Time{})
	after := e.Time.Sub(cut)
	t.Logf("%s leads %v after the legacy leader's node lost power", leader.Identity, after)
	const heartbeat = 10 * time.Second
	if after < grace-heartbeat {
		t.Errorf("it leads %v after the power was lost, and the grace is %v", after, grace)
	}
}

// Electors of client-go's old annotation locks take turns with candidates that
// hold such a lock and the Lease.
func TestCandidatesAndOldElectorsNeverLeadTogether(t *testing.T) {
	g := newGround(t, harmless, "turns")
	rows := map[string]*migration{}
	for _, kind := range recordKinds {
		rows[kind] = newMigration(g, "turns-"+kind)
	}
	atOnce(t, rows, func(t *testing.T, m *migration) {
		m.takeTurns(t, nameOf(t))
		m.checkOverlaps(t)
	})
}

func (m *migration) takeTurns(t *testing.T, kind string) {
	t.Helper()
	begin := func(program trial.Kind, n int) *trial.Seat {
		args := []string{"--kind", kind, "--lease-duration=8s", "--renew-deadline=5s", "--retry-period=1s"}
		if program == trial.Zonelect {
			args = append([]string{"--mode=dual", "--legacy-kind", strings.TrimPrefix(kind, "multilock-")}, quickly...)
		}
		s := m.seat(t, program, "za", m.lock, fmt.Sprintf("%s-%s-%d", m.lock, program, n), args...)
		m.seats = append(m.seats, s)
		return s
	}
	seats := []*trial.Seat{begin(trial.Legacy, 0)}
	await(t, seats[0], "leading", time.Time{})
	seats = append(seats, begin(trial.Zonelect, 1), begin(trial.Legacy, 2), begin(trial.Zonelect, 3))
	since := time.Time{}
	won := map[trial.Kind]int{}
	for round := range 6 {
		leader, e := awaitAny(t, seats, "leading", since)
		won[leader.Kind]++
		time.Sleep(time.Second)
		since = m.kill(t, leader)
		m.ended[leader.Identity] = since
		t.Logf("round %d: %s led from %s", round, leader.Identity, e.Time.Format("05.000"))
		seats = append(others(seats, leader), begin(leader.Kind, 4+round))
	}
	t.Logf("terms won: %v", won)
}
