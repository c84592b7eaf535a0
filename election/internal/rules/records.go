// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"math"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// The functions below return the records that an elector writes. All are pure, and base is
// the record that is replaced.

// acquisition is the record that takes the lock. It replaces everything that
// base says about another holder (S11).
func acquisition(base locks.Record, me locks.Candidate, lease time.Duration, wall time.Time) locks.Record {
	return locks.Record{
		Holder:        me.Identity,
		LeaseDuration: lease,
		AcquireTime:   wall,
		RenewTime:     after(base.RenewTime, wall),
		Transitions:   min(base.Transitions, math.MaxInt32-1) + 1,
		Details:       DetailsOf(me),
		Evacuated:     base.Evacuated,
	}
}

// PreviousOf is what an acquisition that is sent at now says about who led before.
func PreviousOf(free Freeing, now time.Time) locks.Previous {
	p := locks.Previous{Holder: free.Holder, Cause: string(free.Cause)}
	if !free.Late && !free.Life.IsZero() {
		p.Until = now.Add(-now.Sub(free.Life)).UTC().Truncate(time.Millisecond)
	}
	return p
}

// Renewal is the record that continues a term: base, with these details, this lease and a renewTime
// that differs from base's. It notes what the acquisition could not know about the term.
func Renewal(base locks.Record, details locks.Details, lease time.Duration, wall time.Time) locks.Record {
	r := base
	r.Holder, r.LeaseDuration = details.Holder, lease
	r.RenewTime = after(base.RenewTime, wall)
	r.Details = details
	return r
}

// Release is the record that gives a term up. Its lease of one second is what client-go
// writes: the shortest that the API accepts. Without a token nobody ever led, and no trace
// of the holder is left.
func Release(base locks.Record, token uint64, trace string, handover locks.Handover, wall time.Time) locks.Record {
	r := base
	r.Holder, r.LeaseDuration = "", time.Second
	r.AcquireTime = wall
	r.RenewTime = after(base.RenewTime, wall)
	if token == 0 {
		r.Details = locks.Details{}
		return r
	}
	r.Details.Token, r.Details.Released, r.Details.Trace = token, token, trace
	r.Details.Handover, r.Details.Request, r.Details.Refused, r.Details.Waits = handover, "", "", ""
	return r
}

// after is wall, or a little later if before is the same time. Others recognize a renewal
// by its different time.
func after(before, wall time.Time) time.Time {
	if before.UnixMicro() == wall.UnixMicro() {
		return wall.Add(time.Microsecond)
	}
	return wall
}

// DetailsOf returns what a record says about a candidate. It names a pod only if name and UID are
// known, because a record with half of that reads as one without a pod, which the holder would
// mend at once.
func DetailsOf(c locks.Candidate) locks.Details {
	if c.Pod.Name == "" || c.Pod.UID == "" {
		c.Pod = locks.Pod{}
	}
	return locks.Details{Holder: c.Identity, Zone: c.Zone, Node: c.Node, Pod: c.Pod}
}
