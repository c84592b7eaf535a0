// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// timeFormat is that of the times of -w, and of those in the future.
const timeFormat = "2006-01-02T15:04:05Z"

// unknown is the text of what may exist and is not known.
const unknown = "-"

// table returns the names of the columns for some locks, and a row for each.
func (p *printer) table(all []LockStatus, now time.Time) (names []string, rows [][]string) {
	migrating := false
	for _, s := range all {
		migrating = migrating || s.Status.Phase != "" || legacyCell(s.Status.Legacy) != ""
	}
	if p.namespaces {
		names = append(names, "Namespace")
	}
	names = append(names, "Name", "State", "Leader", "Zone", "Since", "Last failover", "Nobody led", "Next", "Candidates")
	if migrating {
		names = append(names, "Phase", "Legacy")
	}
	if p.output == "wide" {
		names = append(names, "Renewed", "Token", "Pod", "Node", "Waiting")
	}
	for _, of := range all {
		s := of.Status
		var row []string
		if p.namespaces {
			row = append(row, of.Namespace)
		}
		row = append(row, of.Name, string(s.State), leaderCell(s), zoneCell(s), age(since(s), now), failoverCell(s.LastFailover, now), nobodyLedCell(s.LastFailover), nextCell(s.Next), candidatesCell(s))
		if migrating {
			row = append(row, string(s.Phase), legacyCell(s.Legacy))
		}
		if p.output == "wide" {
			l, token := cmp.Or(s.Leader, &inspect.Leader{}), ""
			if l.Token > 0 {
				token = fmt.Sprint(l.Token)
			}
			row = append(row, age(l.Renewed, now), token, podName(l.Pod), l.Node, s.Holder().Waiting)
		}
		rows = append(rows, row)
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
		rows = append(rows, []string{identity, c.Zone, node, state, c.Unhealthy, c.Version, c.Mode, c.Waiting})
	}
	return []string{"Candidate", "Zone", "Node", "Pod", "Unhealthy", "Version", "Mode", "Waiting"}, rows
}

// since is when the leader took the lock or, if nobody leads, since when nobody does.
func since(s inspect.Status) *metav1.MicroTime {
	switch {
	case s.Vacancy != nil:
		return s.Vacancy.Since
	case s.Leader != nil:
		return s.Leader.Since
	}
	return nil
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

// leaderCell names the leader or, if nobody leads, who led last.
func leaderCell(s inspect.Status) string {
	v := s.Vacancy
	if v == nil {
		return cmp.Or(s.Leader, &inspect.Leader{}).Identity
	}
	text := "nobody"
	if v.Uncertain {
		text += "?"
	}
	if v.Last != "" {
		text += " (was " + v.Last + ")"
	}
	return text
}

// zoneCell is the zone of the leader or, in parentheses, of who led last.
func zoneCell(s inspect.Status) string {
	switch {
	case s.Vacancy != nil && s.Vacancy.LastZone != "":
		return "(" + s.Vacancy.LastZone + ")"
	case s.Vacancy != nil || s.Leader == nil:
		return ""
	}
	return s.Leader.Zone
}

func failoverCell(f *inspect.Failover, now time.Time) string {
	switch {
	case f == nil:
		return ""
	case f.At == nil:
		return f.Cause
	case now.Sub(f.At.Time) < -time.Second:
		return age(f.At, now) + " (" + f.Cause + ")"
	}
	return age(f.At, now) + " ago (" + f.Cause + ")"
}

func nobodyLedCell(f *inspect.Failover) string {
	if f == nil || f.NobodyLedMilliseconds == nil {
		return ""
	}
	d := time.Duration(*f.NobodyLedMilliseconds) * time.Millisecond
	if d < 10*time.Minute {
		return d.String()
	}
	return duration.HumanDuration(d)
}

func nextCell(n *inspect.Next) string {
	if n == nil {
		return unknown
	}
	return cmp.Or(inspect.Leader{Identity: n.Identity, Zone: n.Zone}.String(), "nobody")
}

func podName(pod string) string {
	name, _, _ := strings.Cut(pod, "/")
	return name
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
	case l.Lingering != "":
		return string(l.Kind) + " (deleted)"
	case l.Kind == ownerref.Shield && !l.Armed:
		return "shield (not armed)"
	default:
		return string(l.Kind)
	}
}
