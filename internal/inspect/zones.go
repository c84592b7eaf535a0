// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/zonelect/zonelect/internal/apierror"
)

// Zones finds out where candidates and leaders are that do not know it themselves: their nodes have
// a label. It keeps what it has read. The zero value, with a Reader, is ready. It is not safe for concurrent use.
type Zones struct {
	Reader
	labels map[string]string // by node; empty if the node has none, or could not be read
	// Unread says why nodes could not be read; empty if they could.
	Unread string
}

// Find adds the zones of candidates and leaders that do not know them. Whatever it cannot read is a
// note on the elections that need it, and no error: the zone of those remains unknown.
func (z *Zones) Find(ctx context.Context, all []Election) {
	for i := range all {
		e, unread := &all[i], false
		for j := range e.Candidates {
			if c := &e.Candidates[j]; c.Zone == "" {
				c.Zone = z.of(ctx, c.Node)
				c.ZoneByNode = c.Zone != ""
				unread = unread || c.Zone == "" && c.Node != ""
			}
		}
		if l := e.Leader(); l != nil {
			z.Locate(ctx, *e, l)
			unread = unread || l.Zone == "" && l.Node != ""
		}
		if e.labels = z.labels; unread && z.Unread != "" {
			e.Notes = append(slices.Clip(e.Notes), "the zones of some nodes are not known: "+z.Unread)
		}
	}
}

// Locate adds the zone to a leader that took the lock since Find.
func (z *Zones) Locate(ctx context.Context, e Election, l *Leader) {
	if l.Zone == "" {
		l.Zone = z.of(ctx, e.nodeOf(l))
		l.ZoneByNode = l.Zone != ""
	}
}

// of reads the zone of a node, once.
func (z *Zones) of(ctx context.Context, name string) string {
	zone, known := z.labels[name]
	if known || name == "" {
		return zone
	}
	if z.labels == nil {
		z.labels = map[string]string{}
	}
	node, err := get[corev1.Node](ctx, z.Core, apierror.Object{Resource: apierror.Nodes, Name: name})
	if err != nil {
		z.Unread = z.Explain(err)
	} else if node != nil {
		zone = node.Labels[corev1.LabelTopologyZone]
	}
	z.labels[name] = zone
	return zone
}

// nodeOf is the node of a leader: that on the Lease or else, if they agree, that on its presences.
func (e Election) nodeOf(l *Leader) string {
	node := l.Node
	for _, c := range e.Candidates {
		switch {
		case l.Node != "" || c.Identity != l.Identity:
		case node != "" && c.Node != node:
			return "" // somebody copies its identity
		default:
			node = c.Node
		}
	}
	return node
}

// locate adds the zone to a leader that does not know it.
func (e Election) locate(l *Leader) {
	if l.Zone == "" {
		l.Zone = e.labels[e.nodeOf(l)]
		l.ZoneByNode = l.Zone != ""
	}
}

// Outside returns the candidates that are known to be outside zones, and those whose zone nobody
// knows: they may be inside.
func Outside(zones []string, all []Candidate) (outside, unknown []Candidate) {
	for _, c := range all {
		switch {
		case c.Zone == "":
			unknown = append(unknown, c)
		case !slices.Contains(zones, c.Zone):
			outside = append(outside, c)
		}
	}
	return outside, unknown
}

// nobodyOutside says that leadership cannot leave zones, as far as is known; empty if it can.
func nobodyOutside(zones []string, all []Candidate) string {
	outside, unknown := Outside(zones, all)
	switch {
	case len(all) == 0 || len(outside) > 0:
		return ""
	case len(unknown) > 0:
		return fmt.Sprintf("no candidate is known to be outside the evacuated zones: the zone of %d is not known", len(unknown))
	}
	return "every zone with candidates is evacuated: leadership cannot leave them"
}
