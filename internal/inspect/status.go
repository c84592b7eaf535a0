// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/internal/requests"
)

// Status is the meaning of an election's objects, for people.
type Status struct {
	State State `json:"state"`
	// Leader is the holder of the Lease; nil if there is none.
	Leader *Leader `json:"leader,omitempty"`
	// Vacancy says that nobody leads, or that it looks so; nil if the leader renews the Lease.
	Vacancy *Vacancy `json:"nobodyLeads,omitempty"`
	// LastFailover is that with which the leader's term began; nil if it began with none.
	LastFailover *Failover `json:"lastFailover,omitempty"`
	// Phase is that of a migration; empty if none is on record.
	Phase      record.Phase `json:"phase,omitempty"`
	Candidates []Candidate  `json:"candidates,omitempty"`
	Legacy     *Legacy      `json:"legacy,omitempty"`
	// Evacuated are the zones that people want the leader out of.
	Evacuated []Evacuation `json:"evacuated,omitempty"`
	Findings
}

// Evacuation is the evacuation of one zone.
type Evacuation struct {
	requests.Evacuation
	// Over says that it has ended, by the clock of this machine.
	Over bool `json:"over,omitempty"`
}

// Status interprets what was read. now is the wall clock.
func (e Election) Status(now time.Time) Status {
	s := Status{Leader: e.Leader(), Phase: e.Phase(), Legacy: e.Legacy, Candidates: ByZone(e.Candidates)}
	s.Notes = slices.Clone(e.Notes)
	r := e.Snapshot().Record
	s.checkEvacuations(r.Evacuated, now)
	var note string
	if s.State, note = e.State(now); note != "" {
		s.Note("%s", note)
	}
	s.checkWork()
	s.LastFailover, s.Vacancy = lastFailover(r), s.vacancy(r, now)
	if d, ours := DetailsOf(r); ours && d.Refused != "" {
		s.Note("%s was asked to hand over, but still leads: %s", d.Holder, d.Refused)
	}
	return s
}

// Holder returns the candidate that holds the Lease, which somebody must. A candidate that has not
// announced itself has only an identity.
func (s *Status) Holder() Candidate {
	if i := slices.IndexFunc(s.Candidates, func(c Candidate) bool { return c.Identity == s.Leader.Identity }); i >= 0 {
		return s.Candidates[i]
	}
	return Candidate{Identity: s.Leader.Identity}
}

// checkWork finds out whether the holder's work has begun. If it has not, the holder says so
// on its presence, a moment after it took the Lease. In phase dual, unless in mode lease, it
// does not work either while another candidate has the legacy lock.
func (s *Status) checkWork() {
	if s.State != Held {
		return
	}
	holder := s.Holder()
	elsewhere := s.Phase == record.PhaseDual && s.Legacy != nil && s.Legacy.Holder != "" && s.Legacy.Holder != holder.Identity
	switch {
	case holder.Waiting != "":
		s.State = Waiting
		s.Note("%s holds the lock, but its work has not begun: %s", holder.Identity, holder.Waiting)
	case !elsewhere || holder.Mode == presence.Alone:
	case holder.TakesPart():
		s.State = Waiting
		s.Note("%s holds the lock, but may not work: %s has the legacy lock", holder.Identity, s.Legacy.Holder)
	default:
		s.Note("whether %s works is not known: it does not say its mode, and %s has the legacy lock", holder.Identity, s.Legacy.Holder)
	}
}

// checkEvacuations adds the zones that people want the leader out of.
func (s *Status) checkEvacuations(listed string, now time.Time) {
	all, err := requests.ParseEvacuations(listed)
	if err != nil {
		s.Warn("the annotation zonelect.dev/evacuated-zones cannot be read in full: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	var going []string
	for _, e := range all {
		e.Until = e.Until.UTC()
		over := !e.Until.IsZero() && !now.Before(e.Until)
		s.Evacuated = append(s.Evacuated, Evacuation{e, over})
		until, end := "until it is restored", e.Until.Format(time.RFC3339)
		switch {
		case over:
			s.Note("the evacuation of zone %s ended at %s", e.Zone, end)
			continue
		case !e.Until.IsZero():
			until = fmt.Sprintf("until %s (%s from now)", end, duration.HumanDuration(e.Until.Sub(now)))
		}
		going = append(going, e.Zone)
		s.Note("zone %s is evacuated %s", e.Zone, until)
		if l := s.Leader; l != nil && l.Zone == e.Zone {
			s.Warn("%s leads in zone %s, which is evacuated", l.Identity, e.Zone)
		}
	}
	if len(going) == 0 {
		return
	}
	if l := s.Leader; l != nil && l.Zone == "" {
		s.Warn("whether %s leads in an evacuated zone is not known: its zone is not known", l.Identity)
	}
	present := Present(s.Candidates)
	if len(present) > 0 && !slices.ContainsFunc(present, func(c Candidate) bool { return !slices.Contains(going, c.Zone) }) {
		s.Warn("every zone with candidates is evacuated: leadership cannot leave them")
	}
}
