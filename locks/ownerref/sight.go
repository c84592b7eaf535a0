// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ownerref

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/locks"
)

// How often what is asked for, at most.
const (
	lookInterval = time.Second     // one node
	listInterval = 5 * time.Second // the heartbeats of all nodes
)

// justNow is how old the last heartbeat of a node that lives may seem, where
// they are listed so often.
const justNow = heartbeat + 2*listInterval

// sights is what a census has seen of nodes and pods. The zero value has seen
// nothing.
type sights struct {
	nodes    map[string]*view
	others   others
	finished map[types.UID]time.Time // when a pod was first seen as finished
}

// heart is what was seen of one node's heartbeats.
type heart struct {
	version string // empty where there are none
	since   time.Time
	beats   bool
}

// see takes in that the version was read, in an answer that came now.
func (h *heart) see(version string, now time.Time) {
	if h.since.IsZero() || h.version != version {
		h.beats = !h.since.IsZero() && version != ""
		h.version, h.since = version, now
	}
}

// view is the newest look at one node.
type view struct {
	heart heart
	taken time.Time
	sight Sight
	note  string
}

// look returns what is known of a pod and its node by now, and a note on why
// M11 may not apply to it.
func (c *Census) look(ctx context.Context, pod *corev1.Pod) (Sight, string, error) {
	finishedFor := c.finishedFor(pod)
	node := pod.Spec.NodeName
	if node == "" {
		return Sight{FinishedFor: finishedFor}, "", nil
	}
	v := c.sights.nodes[node]
	if v == nil {
		v = &view{}
		if c.sights.nodes == nil {
			c.sights.nodes = map[string]*view{}
		}
		c.sights.nodes[node] = v
	}
	if v.taken.IsZero() || time.Since(v.taken) >= lookInterval {
		if err := c.lookAt(ctx, node, v); err != nil {
			return Sight{}, "", err
		}
		v.taken = time.Now()
	}
	s := v.sight
	s.FinishedFor = finishedFor
	return s, v.note, nil
}

// finishedFor is how long a pod has been seen as finished.
func (c *Census) finishedFor(pod *corev1.Pod) time.Duration {
	if !finished(pod) {
		return 0
	}
	first, ok := c.sights.finished[pod.UID]
	if !ok {
		if c.sights.finished == nil {
			c.sights.finished = map[types.UID]time.Time{}
		}
		first = time.Now()
		c.sights.finished[pod.UID] = first
	}
	return time.Since(first)
}

// lookAt renews the view of a node. It asks no more than it must: a node that
// beats is fine.
func (c *Census) lookAt(ctx context.Context, node string, v *view) error {
	v.sight, v.note = Sight{Grace: c.config.LegacyGrace}, ""
	if err := c.listen(ctx, node, v); err != nil {
		return err
	}
	s := &v.sight
	if s.Beats && s.SilentFor < missed {
		return nil
	}
	if err := c.readNode(ctx, node, v); err != nil {
		return err
	}
	if s.HeartKnown && v.heart.version == "" && (!s.NodeKnown || s.Exists && s.Ready) {
		// A node without heartbeats, as far as is known: that is not silence.
		s.HeartKnown, s.SilentFor, v.heart = false, 0, heart{}
	}
	if s.Grace <= 0 || !s.HeartKnown || s.SilentFor < s.Grace/3 {
		return nil
	}
	beating, total, err := c.sights.others.listen(ctx, c.config)
	switch {
	case errors.Is(err, locks.ErrForbidden):
		v.note = fmt.Sprintf("node %s is silent, but whether others are, too, cannot be told, so that its pods are waited for: %v", node, err)
	case err != nil:
		return err
	case beating*2 < total:
		v.note = fmt.Sprintf("node %s is silent, but of %d nodes only %d were seen to beat just now, so that its pods are waited for", node, total, beating)
	default:
		s.OthersBeat = total > 0
	}
	return nil
}

// listen reads the heartbeats of a node. The silence runs from the answer that
// first showed the newest to the request that found no newer.
func (c *Census) listen(ctx context.Context, node string, v *view) error {
	name := apierror.Object{Resource: apierror.Leases, Namespace: corev1.NamespaceNodeLease, Name: node}
	sent := time.Now()
	lease, err := rawapi.New[coordinationv1.Lease](c.config.Coordination, name).Get(ctx)
	version := ""
	switch {
	case errors.Is(err, locks.ErrForbidden):
		if c.config.LegacyGrace > 0 {
			v.note = fmt.Sprintf("the heartbeats of node %s may not be read, so that its pods are waited for, dead or not: %v", node, err)
		}
		v.heart = heart{}
		return nil
	case name.Absent(err):
	case err != nil:
		return err
	default:
		version = lease.ResourceVersion
	}
	v.heart.see(version, time.Now())
	v.sight.HeartKnown, v.sight.Beats = true, v.heart.beats
	v.sight.SilentFor = max(0, sent.Sub(v.heart.since))
	return nil
}

// readNode reads what the Node itself says, if that is allowed.
func (c *Census) readNode(ctx context.Context, node string, v *view) error {
	s := &v.sight
	name := apierror.Object{Resource: apierror.Nodes, Name: node}
	object, err := rawapi.New[corev1.Node](c.config.Core, name).Get(ctx)
	switch {
	case errors.Is(err, locks.ErrForbidden):
		if s.Grace > 0 && v.note == "" {
			v.note = fmt.Sprintf("whether node %s was declared out of service cannot be told: %v", node, err)
		}
		return nil
	case name.Absent(err):
		s.NodeKnown = true
		return nil
	case err != nil:
		return err
	}
	s.NodeKnown, s.Exists = true, true
	for _, condition := range object.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			s.Ready = condition.Status == corev1.ConditionTrue
		}
	}
	for _, taint := range object.Spec.Taints {
		if taint.Key == corev1.TaintNodeOutOfService {
			s.OutOfService = true
		}
	}
	return nil
}

// others is what was seen of the heartbeats of all nodes. The zero value has
// seen nothing.
type others struct {
	hearts map[string]*heart
	listed time.Time
}

// listen returns how many nodes were seen to beat just now, of how many. It
// asks every few seconds only; a node is not counted as beating before it was
// seen to.
func (o *others) listen(ctx context.Context, config CensusConfig) (beating, total int, err error) {
	if since := time.Since(o.listed); o.hearts == nil || since >= listInterval {
		if since > gap {
			o.hearts = nil
		}
		if err := o.list(ctx, config); err != nil {
			return 0, 0, err
		}
	}
	for _, h := range o.hearts {
		if h.beats && time.Since(h.since) < justNow {
			beating++
		}
	}
	return beating, len(o.hearts), nil
}

func (o *others) list(ctx context.Context, config CensusConfig) error {
	leases, err := rawapi.List[coordinationv1.LeaseList](ctx, config.Coordination, apierror.Leases, corev1.NamespaceNodeLease, "")
	if err != nil {
		return err
	}
	o.listed = time.Now()
	hearts := make(map[string]*heart, len(leases.Items))
	for i := range leases.Items {
		lease := &leases.Items[i]
		h := o.hearts[lease.Name]
		if h == nil {
			h = &heart{}
		}
		h.see(lease.ResourceVersion, o.listed)
		hearts[lease.Name] = h
	}
	o.hearts = hearts
	return nil
}
