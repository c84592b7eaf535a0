// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// timeFormat is that of the times of -w, and of those in the future.
const timeFormat = "2006-01-02T15:04:05Z"

// table returns the names of the columns for some locks, and a row for each.
func (s *statusCommand) table(found []inspect.Election, now time.Time) (names []string, rows [][]string) {
	migrating := slices.ContainsFunc(found, func(e inspect.Election) bool { return e.Phase() != "" || legacyCell(e.Legacy) != "" })
	shown := func(all ...string) []string {
		if !migrating {
			all = all[:8]
		}
		if !s.everywhere {
			all = all[1:]
		}
		return all
	}
	names = shown("Namespace", "Name", "State", "Leader", "Zone", "Since", "Last failover", "Candidates", "Phase", "Legacy")
	for _, e := range found {
		st := e.Status(now)
		leader, zone, since := leads(st)
		if st.Vacancy != nil && zone != "" {
			zone = "(" + zone + ")"
		}
		rows = append(rows, shown(e.Namespace, e.Name, string(st.State), leader, zone, age(since, now),
			failoverCell(st, now), candidatesCell(st), string(st.Phase), legacyCell(st.Legacy)))
	}
	return names, rows
}

// candidates returns the candidates of a lock as a table; * marks the holder of the Lease.
func candidates(s inspect.Status) (names []string, rows [][]string) {
	for _, c := range s.Candidates {
		identity, node, state := c.Identity, c.Node, cmp.Or(c.PodState, "<unknown>")
		if s.Leader != nil && identity == s.Leader.Identity {
			identity += " *"
		}
		if c.NodeState != "" && c.NodeState != inspect.Ready {
			node += " (" + c.NodeState + ")"
		}
		if c.Pod == "" && c.PodState == "" {
			state = "<no pod>"
		}
		rows = append(rows, []string{identity, c.Zone, node, state, c.Unhealthy, c.Mode, c.Waiting})
	}
	return []string{"Candidate", "Zone", "Node", "Pod", "Unhealthy", "Mode", "Waiting"}, rows
}

// leads says who leads, where and since when; or if nobody does, who led last, where, and since when nobody does.
func leads(s inspect.Status) (leader, zone string, since *metav1.MicroTime) {
	v := s.Vacancy
	switch {
	case v == nil && s.Leader == nil:
		return "", "", nil
	case v == nil:
		return s.Leader.Identity, s.Leader.Zone, s.Leader.Since
	}
	leader = "nobody"
	if v.Uncertain {
		leader += "?"
	}
	if v.Last != "" {
		leader += " (was " + v.Last + ")"
	}
	return leader, v.LastZone, v.Since
}

// age says how long ago something was; if that is in the future, because clocks differ, when
// it was.
func age(at *metav1.MicroTime, now time.Time) string {
	switch {
	case at == nil:
		return ""
	case now.Sub(at.Time) < -time.Second:
		return at.UTC().Format(timeFormat)
	}
	return duration.HumanDuration(max(0, now.Sub(at.Time)))
}

func failoverCell(s inspect.Status, now time.Time) string {
	f := s.LastFailover
	if f == nil {
		return ""
	}
	text := f.Cause
	if f.NobodyLedMilliseconds != nil {
		text += fmt.Sprintf(", nobody led for %s", time.Duration(*f.NobodyLedMilliseconds)*time.Millisecond)
	}
	if at := s.Leader.Since; at != nil && now.Sub(at.Time) >= -time.Second {
		text = age(at, now) + " ago: " + text
	}
	return text
}

// candidatesCell counts those that have announced themselves. If none has and there is a leader,
// at least one candidate does not announce itself.
func candidatesCell(s inspect.Status) string {
	if len(s.Candidates) == 0 && s.Leader != nil {
		return "<unknown>"
	}
	return byZone(inspect.Present(s.Candidates))
}

// byZone counts candidates by zone, in their order. An unknown zone is "?".
func byZone(all []inspect.Candidate) string {
	var zones []string
	count := map[string]int{}
	for _, c := range all {
		zone := cmp.Or(c.Zone, "?")
		if count[zone] == 0 {
			zones = append(zones, zone)
		}
		count[zone]++
	}
	for i, zone := range zones {
		zones[i] = fmt.Sprintf("%s:%d", zone, count[zone])
	}
	return strings.Join(zones, ",")
}

// legacyCell describes the object in the legacy lock's place in a word or two.
func legacyCell(l *inspect.Legacy) string {
	switch {
	case l == nil || l.Kind == ownerref.Absent:
		return ""
	case l.Holder != "":
		return l.Holder
	}
	return string(l.Kind)
}
