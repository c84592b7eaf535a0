// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// Vacancy says that nobody leads.
type Vacancy struct {
	// Since is when the last leader renewed or released the lock for the last time, by its own
	// clock. A leader that fell silent may have worked for a part of the time since then. It is
	// nil if it is not known.
	Since *metav1.MicroTime `json:"since,omitempty"`
	// Last is who led last, and LastZone where; empty if that is not known.
	Last     string `json:"last,omitempty"`
	LastZone string `json:"lastZone,omitempty"`
	// Uncertain says that the last leader may still lead.
	Uncertain bool `json:"uncertain,omitempty"`
}

// Failover is a change of leader that nobody wished for, with which the term of the present leader
// began. What is not known is empty or nil.
type Failover struct {
	// From is who led before.
	From string `json:"from,omitempty"`
	// Cause is how the lock had come free.
	Cause string `json:"cause"`
	// NobodyLedMilliseconds is for how long nobody led, as the next leader saw it.
	NobodyLedMilliseconds *int64 `json:"nobodyLedMilliseconds,omitempty"`
}

// vacancy says whether nobody leads.
func (s *Status) vacancy(r locks.Record, now time.Time) *Vacancy {
	v := &Vacancy{Since: stamp(r.RenewTime)}
	switch s.State {
	case Expired, Released, Free:
	case Stale, Cleared, Absent: // the holder of an absent one may be about to put it back
		v.Uncertain = true
	default:
		return nil
	}
	if now.Sub(r.RenewTime) < -time.Second { // whole seconds and small differences of clocks do not explain that
		v.Since = nil
	}
	v.Last, v.LastZone = r.Details.Holder, r.Details.Zone
	if s.Leader != nil {
		v.Last, v.LastZone = s.Leader.Identity, s.Leader.Zone
	}
	switch l := s.Legacy; {
	case l != nil && l.Holder != "" && l.Holder != v.Last && s.Leader == nil:
		return nil // that one may lead
	case l != nil && l.Holder != "" && l.Holder != v.Last,
		l == nil && (s.Phase == record.PhaseLegacy || s.Phase == record.PhaseDual): // it is not known who has it
		v.Uncertain = true
	}
	return v
}

// handoverLimit is for how long nobody may lead while a leader hands its lock over. If it took
// longer, nobody was there to take it.
const handoverLimit = time.Second

// lastFailover returns the failover that the holder's term began with; nil if it began with none, or
// if the holder is of another program, which leaves there what it finds.
func lastFailover(r locks.Record) *Failover {
	p := r.Previous
	nobodyLed := r.AcquireTime.Sub(p.Until)
	known := !p.Until.IsZero() && nobodyLed >= 0
	switch {
	case r.Holder == "" || r.Details.Holder != r.Holder, p.Cause == "", p.Cause == string(status.CauseAbsent),
		p.Cause == string(status.CauseReleased) && (!known || nobodyLed < handoverLimit):
		return nil
	}
	f := &Failover{From: p.Holder, Cause: p.Cause}
	if ms := nobodyLed.Milliseconds(); known {
		f.NobodyLedMilliseconds = &ms
	}
	return f
}
