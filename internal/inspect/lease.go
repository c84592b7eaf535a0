// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/zonelect/zonelect/locks"
)

// Leader is the holder of a Lease.
type Leader struct {
	Identity string `json:"identity"`
	Zone     string `json:"zone,omitempty"`
	Node     string `json:"node,omitempty"`
	Pod      string `json:"pod,omitempty"`
	// Token is the term's fencing token; zero if the holder has noted none.
	Token                uint64            `json:"token,omitempty"`
	Since                *metav1.MicroTime `json:"since,omitempty"`
	Renewed              *metav1.MicroTime `json:"renewed,omitempty"`
	LeaseDurationSeconds int32             `json:"leaseDurationSeconds,omitempty"`
	Transitions          int32             `json:"transitions,omitempty"`
}

// String returns the identity of the leader, and its zone if that is known.
func (l Leader) String() string {
	if l.Zone == "" {
		return l.Identity
	}
	return l.Identity + " (" + l.Zone + ")"
}

// DetailsOf returns what the holder of a record says about itself. ours is false if no
// zonelect program wrote the holder: then the details, if any, are those of an earlier
// holder.
func DetailsOf(r locks.Record) (d locks.Details, ours bool) {
	if r.Holder == "" || r.Details.Holder != r.Holder {
		return locks.Details{}, false
	}
	return r.Details, true
}

// LeaderOf returns the holder that a record names; nil if there is none.
func LeaderOf(r locks.Record) *Leader {
	if r.Holder == "" {
		return nil
	}
	d, _ := DetailsOf(r)
	return &Leader{
		Identity: r.Holder, Zone: d.Zone, Node: d.Node, Pod: d.Pod.String(), Token: d.Token,
		Since: stamp(r.AcquireTime), Renewed: stamp(r.RenewTime),
		LeaseDurationSeconds: int32(r.LeaseDuration / time.Second), Transitions: r.Transitions,
	}
}

// stamp is a time as a Lease has it; nil for none, and for one that nobody could read there: a year
// has four digits.
func stamp(t time.Time) *metav1.MicroTime {
	if year := t.UTC().Year(); t.IsZero() || year < 1 || year > 9999 {
		return nil
	}
	return &metav1.MicroTime{Time: t}
}

// State says whether a lock is held.
type State string

// The states of a lock.
const (
	Held     State = "held"
	Waiting  State = "waiting"  // it is renewed, and its holder's work may not begin yet
	Stale    State = "stale"    // a holder is named, but no renewal was seen
	Expired  State = "expired"  // the same for as long as the lease lasts: any candidate may take it
	Released State = "released" // the holder gave it up
	Free     State = "free"     // nobody holds it, and no zonelect program held it last
	Cleared  State = "cleared"  // another client removed the holder's name
	Absent   State = "absent"   // there is no Lease
)

// Watched is what a watch of a Lease has shown.
type Watched struct {
	For     time.Duration // zero if it was not watched
	Renewed bool          // it was written in that time
}

// Lasts is how long the others wait for the next renewal; zero if that is not on record. Whoever
// releases a lock, or empties it as client-go does, leaves the shortest duration that there is, which
// says nothing of the lease.
func (e Election) Lasts() time.Duration {
	r := e.Snapshot().Record
	if r.Holder == "" && r.LeaseDuration <= time.Second {
		return 0
	}
	return r.LeaseDuration
}

// Silent reports whether the wall clock says that the holder of the Lease no longer renews it.
func (e Election) Silent(now time.Time) bool {
	r := e.Snapshot().Record
	return r.Holder != "" && now.Sub(r.RenewTime) > e.Lasts()
}

// doubtful reports whether that, or a time in the future, says that the holder does not renew the
// Lease, and no renewal was seen.
func (e Election) doubtful(now time.Time) bool {
	r := e.Snapshot().Record
	return !e.Watched.Renewed && (e.Silent(now) || r.Holder != "" && now.Sub(r.RenewTime) < -e.Lasts())
}

// State says whether the Lease is held. If that is not certain, a note says how it is known.
// Whether the work of its holder has begun only Status tells.
func (e Election) State(now time.Time) (state State, note string) {
	if e.Lease == nil {
		return Absent, ""
	}
	r, watched := e.Snapshot().Record, e.Watched
	if r.Holder == "" {
		return stateOfEmpty(r.Details.Token, r.Details.Released)
	}
	age, lasts := now.Sub(r.RenewTime), r.LeaseDuration
	seen := ""
	if watched.For > 0 {
		seen = fmt.Sprintf("no renewal was seen in %s of watching", duration.HumanDuration(watched.For))
	}
	switch {
	case watched.Renewed:
		return Held, ""
	case lasts > 0 && watched.For >= lasts:
		return Expired, seen + ", which is as long as the lease lasts: any candidate may take it, and none did"
	case !e.doubtful(now):
		return Held, ""
	case lasts <= 0:
		return Stale, joined(seen, "the Lease does not say how long it lasts, so that no candidate takes it from its holder")
	case age < 0:
		const future = "the last renewal is %s in the future by the clock of this machine: the clocks differ"
		return Stale, joined(seen, fmt.Sprintf(future, duration.HumanDuration(age.Abs())))
	default:
		const old = "the last renewal is %s old by the clock of this machine, which may differ from the holder's"
		return Stale, joined(seen, fmt.Sprintf(old, duration.HumanDuration(age)))
	}
}

func stateOfEmpty(token, released uint64) (state State, note string) {
	switch {
	case token == 0 && released == 0:
		return Free, ""
	case token == released:
		return Released, ""
	default:
		return Cleared, fmt.Sprintf("somebody removed the holder's name, but the term with token %d was not released: "+
			"its holder may still be at work until its lease expires", token)
	}
}

func joined(a, b string) string { return strings.TrimPrefix(a+"; "+b, "; ") }
