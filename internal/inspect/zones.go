// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/zonelect/zonelect/internal/apierror"
)

// Zones finds out where candidates and leaders are that do not know it themselves: their nodes have
// a label. It keeps what it has read for a while. The zero value, with a Reader, is ready. It is not
// safe for concurrent use.
type Zones struct {
	Reader
	labels map[string]label // by node
	// Unread says why nodes could not be read the last time; empty if they could.
	Unread string
}

// label is the zone on a node, which may be empty.
type label struct {
	zone string
	read time.Time
}

// labelsLast is for how long a label is believed. mostNodes bounds how many are kept:
// anybody who may create a Lease can name nodes.
const labelsLast, mostNodes = time.Minute, 300

// Find adds the zones of candidates and leaders that do not know them. Whatever it cannot read is a
// note on the elections that need it, and no error: the zone of those remains unknown.
func (z *Zones) Find(ctx context.Context, all []Election) {
	maps.DeleteFunc(z.labels, func(_ string, l label) bool { return time.Since(l.read) >= labelsLast })
	var leaders, others []string
	for i := range all {
		if l := all[i].Leader(); l != nil && l.Zone == "" {
			leaders = append(leaders, all[i].nodeOf(l))
		}
		for _, c := range all[i].Candidates {
			if c.Zone == "" {
				others = append(others, c.Node)
			}
		}
	}
	if z.labels == nil {
		z.labels = map[string]label{}
	}
	z.read(ctx, append(leaders, others...))
	for i := range all {
		z.add(&all[i])
	}
}

// add adds to an election what was read.
func (z *Zones) add(e *Election) {
	e.labels = z.labels
	unread := false
	for i := range e.Candidates {
		c := &e.Candidates[i]
		if c.Zone == "" {
			c.Zone = z.labels[c.Node].zone
			c.ZoneByNode = c.Zone != ""
			unread = unread || c.Zone == "" && c.Node != ""
		}
	}
	l := e.Leader()
	unread = unread || l != nil && l.Zone == "" && l.Node != ""
	if unread && z.Unread != "" {
		e.Notes = append(slices.Clip(e.Notes), "the zones of some nodes are not known: "+z.Unread)
	}
}

// Locate adds the zone to a leader that took the lock since Find.
func (z *Zones) Locate(ctx context.Context, e Election, l *Leader) {
	if l.Zone == "" {
		z.read(ctx, []string{e.nodeOf(l)})
		e.locate(l)
	}
}

// read reads the labels of nodes that are not known yet. An empty name, and one that no node can
// have, names none.
func (z *Zones) read(ctx context.Context, nodes []string) {
	var names []string
	for _, name := range nodes {
		if _, known := z.labels[name]; !known && nameIn(name) != "" && len(z.labels)+len(names) < mostNodes && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	for _, name := range names { // those that cannot be read are not tried again at once, either
		z.labels[name] = label{read: time.Now()}
	}
	var mu sync.Mutex
	err := each(ctx, names, func(ctx context.Context, name string) error {
		node, err := get[corev1.Node](ctx, z.Core, apierror.Object{Resource: apierror.Nodes, Name: name})
		if err != nil {
			return err
		}
		if node != nil {
			mu.Lock()
			defer mu.Unlock()
			z.labels[name] = label{node.Labels[corev1.LabelTopologyZone], time.Now()}
		}
		return nil
	})
	if z.Unread = ""; err != nil {
		z.Unread = z.Explain(err)
	}
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
		l.Zone = e.labels[e.nodeOf(l)].zone
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
