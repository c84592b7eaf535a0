// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
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
// if the lock is free, now. It is pure. known is false if some candidate does not say how it
// finds its takeover delay, if no candidate is known, or if they disagree.
func inLine(e inspect.Election, s inspect.Status) (ranked []inspect.Candidate, known bool) {
	t := takeover(e, s)
	if len(t.Peers) == 0 || s.Phase == record.PhaseLegacy { // in that phase none of them campaigns
		return nil, false
	}
	type way struct {
		takeoverDelay string
		lock          locks.Description
	}
	ways := map[way]func(election.Takeover) time.Duration{}
	delays := map[string]time.Duration{}
	for _, c := range e.Candidates {
		if c.Identity == t.Previous && t.Cause == status.CauseExpired || s.Phase == record.PhaseDual && c.Mode == presence.Alone {
			continue // the second does not campaign in that phase (M12)
		}
		w := way{c.TakeoverDelay, lockOf(e, c)}
		if ways[w] == nil {
			preferred, known := presence.PreferredZones(c.TakeoverDelay)
			if !known {
				return nil, false
			}
			ways[w] = zone.Order{Preferred: preferred}.Cached()
		}
		t.Lock, t.Candidate = w.lock, locks.Candidate{Identity: c.Identity, Zone: c.SaidZone()}
		delays[c.Identity] = ways[w](t)
		ranked = append(ranked, c)
	}
	slices.SortStableFunc(ranked, func(a, b inspect.Candidate) int {
		return cmp.Or(cmp.Compare(delays[a.Identity], delays[b.Identity]), cmp.Compare(a.Identity, b.Identity))
	})
	if len(ways) > 1 && tied(ranked, delays) { // such as while preferred zones are rolled out
		return nil, false
	}
	return ranked, true
}

// tied reports whether two candidates may go at about the same time.
func tied(ranked []inspect.Candidate, delays map[string]time.Duration) bool {
	for i := 1; i < len(ranked); i++ {
		if delays[ranked[i].Identity]-delays[ranked[i-1].Identity] < (zone.Order{}).Slot() {
			return true
		}
	}
	return false
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

// vitalsLast is for how long the state of a pod or a node is believed.
const vitalsLast = 15 * time.Second

// vitals remembers which candidates can run.
type vitals struct {
	reader inspect.Reader
	known  map[string]vital // by the presence's name
	// noPods and noNodes say why those may not be read; empty if they may.
	noPods, noNodes string
}

type vital struct {
	pod, node string
	read      time.Time
}

// next adds who goes first among those that are not known to be unfit.
func (v *vitals) next(ctx context.Context, e inspect.Election, s *inspect.Status, now time.Time) error {
	ranked, known := inLine(e, *s)
	if !known {
		return nil
	}
	s.Next = &inspect.Next{}
	for looked := 0; looked < len(ranked); { // at one, then at more at a time: somebody may have made them up
		some := ranked[looked:min(len(ranked), 2*looked+1)]
		looked += len(some)
		if err := v.look(ctx, e.Namespace, some); err != nil {
			return err
		}
		for _, c := range some {
			switch {
			case justLost(c, s.LastFailover, now):
				s.Next = nil // in case there is no other: it may be back
			case mayRun(c):
				s.Next = &inspect.Next{Identity: c.Identity, Zone: c.Zone}
				return nil
			}
		}
	}
	return nil
}

// looksAlive is for how long the pod and the node of a candidate that lost its power may look
// as before.
const looksAlive = time.Minute

// justLost reports whether a candidate was the leader that the last failover was from, a moment
// ago.
func justLost(c inspect.Candidate, f *inspect.Failover, now time.Time) bool {
	return f != nil && f.At != nil && c.Identity == f.From && c.Identity != f.To && now.Sub(f.At.Time) < looksAlive
}

// mayRun reports whether neither the pod nor the node of a candidate is known to be gone.
func mayRun(c inspect.Candidate) bool {
	return slices.Contains([]string{"", inspect.Ready, inspect.NotReady}, c.PodState) && (c.NodeState == "" || c.NodeState == inspect.Ready)
}

// look adds the states of candidates' pods and nodes, unless they are there. A missing
// permission is remembered, and no error.
func (v *vitals) look(ctx context.Context, namespace string, all []inspect.Candidate) error {
	var unknown []inspect.Candidate
	for i := range all {
		c := &all[i]
		switch k, is := v.known[key(*c)]; {
		case c.PodState != "" || c.NodeState != "" || c.Part == nil:
		case is && time.Since(k.read) < vitalsLast:
			c.PodState, c.NodeState = k.pod, k.node
		default:
			unknown = append(unknown, *c)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	began := time.Now()
	err := errors.Join(
		v.unlessDenied(&v.noPods, func() error { return v.reader.Pods(ctx, namespace, unknown) }),
		v.unlessDenied(&v.noNodes, func() error { return v.reader.Nodes(ctx, unknown) }),
	)
	if err != nil {
		return err
	}
	if v.known == nil {
		v.known = map[string]vital{}
	}
	for _, c := range unknown {
		v.known[key(c)] = vital{c.PodState, c.NodeState, began}
	}
	for i := range all {
		if k, is := v.known[key(all[i])]; is && all[i].PodState == "" && all[i].NodeState == "" {
			all[i].PodState, all[i].NodeState = k.pod, k.node
		}
	}
	return nil
}

// key is the name of a candidate's presence.
func key(c inspect.Candidate) string {
	if c.Part == nil {
		return ""
	}
	return c.Presence
}

// unlessDenied reads, unless an earlier time has shown that it is not permitted.
func (v *vitals) unlessDenied(why *string, read func() error) error {
	if *why != "" {
		return nil
	}
	err := read()
	if errors.Is(err, locks.ErrForbidden) {
		*why, err = v.reader.Explain(err), nil
	}
	return err
}

// note says what could not be read; empty if nothing.
func (v *vitals) note() string {
	why := cmp.Or(v.noPods, v.noNodes)
	if why == "" {
		return ""
	}
	return "note: whether the candidates that are next can run is not known: " + why
}
