// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/timing"
)

// mix is the timings of the candidates for one lock that run side by side, one
// each. A rollout changes them. docs/timing.md says which mixes are safe.
type mix struct {
	ours   []election.Timing
	theirs []election.Timing // of other programs; nil means ours
}

// Timings of the mixes. Those below six seconds are only for a lock of ours
// alone.
var (
	usual = election.Timing{}.WithDefaults()
	long  = election.Timing{LeaseDuration: 30 * time.Second, RenewDeadline: 20 * time.Second, RenewInterval: 5 * time.Second}.WithDefaults()
	// modest asks others to wait for a long lease, and needs no more than a
	// usual one.
	modest  = election.Timing{LeaseDuration: 30 * time.Second, RenewDeadline: usual.RenewDeadline, StopGrace: usual.StopGrace}.WithDefaults()
	short   = election.Timing{LeaseDuration: 6 * time.Second, RenewDeadline: 4 * time.Second, RenewInterval: time.Second}.WithDefaults()
	shorter = election.Timing{
		LeaseDuration: 4 * time.Second, RenewDeadline: 3 * time.Second, RenewInterval: time.Second, AttemptTimeout: 500 * time.Millisecond,
	}.WithDefaults()
	patient  = timing.Patient()
	medium   = election.Timing{LeaseDuration: 12 * time.Second, RenewDeadline: 8 * time.Second, RenewInterval: 2 * time.Second}.WithDefaults()
	shortest = election.Timing{
		LeaseDuration: 2 * time.Second, RenewDeadline: time.Second, RenewInterval: 300 * time.Millisecond, Exclusive: true,
	}.WithDefaults()
)

// alike is a mix in which every process may have any of these timings.
func alike(all ...election.Timing) mix { return mix{ours: all} }

var (
	// ourMixes are those of candidates alone: first those that would also work
	// beside client-go.
	ourMixes = []mix{
		alike(usual), alike(usual, long), alike(short), alike(short, medium),
		alike(shorter, long), alike(shortest), alike(shortest, shorter), alike(patient), alike(patient, usual),
	}
	// sharedMixes are those beside today's client-go, which waits for as long as
	// the record says.
	sharedMixes = []mix{alike(usual), alike(usual, long), alike(usual, patient)}
	// pastMixes are those beside electors that wait for their own LeaseDuration,
	// whatever the record says: all of these electors have the same, and work of
	// ours has stopped when it ends.
	pastMixes = []mix{
		alike(usual),
		{ours: []election.Timing{usual, modest}, theirs: []election.Timing{usual}},
		{ours: []election.Timing{usual, long}, theirs: []election.Timing{long}},
	}
)

// others are the timings of the other programs.
func (m mix) others() []election.Timing {
	if m.theirs == nil {
		return m.ours
	}
	return m.theirs
}

func byLease(a, b election.Timing) int { return cmp.Compare(a.LeaseDuration, b.LeaseDuration) }

// lease is the longest LeaseDuration of all.
func (m mix) lease() time.Duration {
	return slices.MaxFunc(slices.Concat(m.others(), m.ours), byLease).LeaseDuration
}

// even reports whether all leases are the same.
func (m mix) even() bool { return m.lease() == m.least() }

// least is the shortest LeaseDuration of ours.
func (m mix) least() time.Duration { return slices.MinFunc(m.ours, byLease).LeaseDuration }

// interval is the longest RenewInterval of ours, and attempt the longest of their
// AttemptTimeouts.
func (m mix) interval() time.Duration {
	by := func(a, b election.Timing) int { return cmp.Compare(a.RenewInterval, b.RenewInterval) }
	return slices.MaxFunc(m.ours, by).RenewInterval
}

func (m mix) attempt() time.Duration {
	by := func(a, b election.Timing) int { return cmp.Compare(a.AttemptTimeout, b.AttemptTimeout) }
	return slices.MaxFunc(m.ours, by).AttemptTimeout
}

func (m mix) String() string {
	tell := func(all []election.Timing) string {
		var texts []string
		for _, t := range all {
			texts = append(texts, fmt.Sprintf("%v/%v/%v, attempts %v", t.LeaseDuration, t.RenewDeadline, t.RenewInterval, t.AttemptTimeout))
		}
		return strings.Join(texts, " and ")
	}
	if m.theirs == nil {
		return tell(m.ours)
	}
	return tell(m.ours) + ", beside " + tell(m.theirs)
}
