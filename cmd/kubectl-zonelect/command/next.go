// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"slices"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/zone"
)

// inLine returns the candidates in the order in which they go when the leader falls silent or,
// if the lock is free, now. known is false if no candidate is known, or if they do not say how they find their
// takeover delays, or disagree.
func inLine(e inspect.Election, s inspect.Status) (ranked []inspect.Candidate, known bool) {
	t := takeover(e, s)
	if len(t.Peers) == 0 || s.Phase == record.PhaseLegacy { // in that phase none of them campaigns
		return nil, false
	}
	delays := map[string]time.Duration{}
	var order func(election.Takeover) time.Duration
	var first inspect.Candidate
	for _, c := range e.Candidates {
		if c.Identity == t.Previous && t.Cause == status.CauseExpired || s.Phase == record.PhaseDual && c.Mode == presence.Alone {
			continue // the second does not campaign in that phase (M12)
		}
		if order == nil {
			preferred, known := presence.PreferredZones(c.TakeoverDelay)
			if !known {
				return nil, false
			}
			first, order = c, zone.Order{Preferred: preferred}.TakeoverDelay
		}
		if c.TakeoverDelay != first.TakeoverDelay || lockOf(e, c) != lockOf(e, first) { // such as while preferred zones are rolled out
			return nil, false
		}
		t.Lock, t.Candidate = lockOf(e, c), locks.Candidate{Identity: c.Identity, Zone: c.SaidZone()}
		delays[c.Identity] = order(t)
		ranked = append(ranked, c)
	}
	slices.SortStableFunc(ranked, func(a, b inspect.Candidate) int {
		return cmp.Or(cmp.Compare(delays[a.Identity], delays[b.Identity]), cmp.Compare(a.Identity, b.Identity))
	})
	return ranked, true
}

// takeover is the next one, without a candidate.
func takeover(e inspect.Election, s inspect.Status) election.Takeover {
	t := election.Takeover{Cause: status.CauseExpired}
	switch {
	case s.Leader != nil:
		t.Previous, t.PreviousZone = s.Leader.Identity, s.Leader.SaidZone()
	case s.Vacancy != nil:
		t.Previous, t.PreviousZone = s.Vacancy.Last, s.Vacancy.LastZone
	}
	switch s.State {
	case inspect.Released, inspect.Free:
		t.Cause = status.CauseReleased
	case inspect.Absent:
		t.Cause = status.CauseAbsent
	default: // it is held, or it is free once it has expired
	}
	for _, c := range e.Candidates {
		if c.InNoPod() && c.PodState == inspect.Gone {
			continue // candidates ignore it too
		}
		t.Peers = append(t.Peers, locks.Peer{Candidate: locks.Candidate{Identity: c.Identity, Zone: c.SaidZone()}, Unhealthy: c.Unhealthy})
	}
	for _, evacuation := range s.Evacuated {
		if !evacuation.Over {
			t.Evacuated = append(t.Evacuated, evacuation.Zone)
		}
	}
	return t
}

// lockOf describes the lock as a candidate does: the order of equals depends on it.
func lockOf(e inspect.Election, c inspect.Candidate) locks.Description {
	d := locks.Description{Kind: apierror.Leases.Kind, Namespace: e.Namespace, Name: e.Name}
	if e.Lease == nil || !c.TakesPart() {
		return d
	}
	if old := record.ReadLegacy(e.Lease.Annotations); old.Elected {
		d.Kind += "+" + map[string]apierror.Resource{record.ConfigMaps: apierror.ConfigMaps, record.Endpoints: apierror.Endpoints}[old.Resource].Kind
	}
	return d
}

// next says who goes first among those that are not known to be unfit; nil if that is not known.
func next(e inspect.Election, s inspect.Status) *inspect.Next {
	ranked, known := inLine(e, s)
	if !known {
		return nil
	}
	for _, c := range ranked {
		if (c.PodState == "" || c.PodState == inspect.Ready || c.PodState == inspect.NotReady) && (c.NodeState == "" || c.NodeState == inspect.Ready) {
			return &inspect.Next{Identity: c.Identity, Zone: c.Zone}
		}
	}
	return &inspect.Next{}
}
