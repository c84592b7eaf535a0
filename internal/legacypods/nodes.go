// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package legacypods

import (
	"cmp"
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

// How often each kind of request is made, at most.
const (
	lookInterval = time.Second     // one node
	listInterval = 5 * time.Second // the heartbeats of all nodes
)

// justNow is how old the last heartbeat of a live node may seem if heartbeats are listed
// that often.
const justNow = heartbeat + 2*listInterval

// observations holds what was seen of nodes and pods.
type observations struct {
	nodes    map[string]*nodeView    // those of the legacy pods
	hearts   map[string]*heartbeats  // of all nodes
	listed   time.Time               // when hearts were listed last
	finished map[types.UID]time.Time // when a pod was first seen as finished
}

// heartbeats holds what was seen of one node's heartbeats.
type heartbeats struct {
	version string // empty if none was seen yet
	since   time.Time
	beats   bool
}

// see records that an answer that came now had this version.
func (h *heartbeats) see(version string, now time.Time) {
	if h.version != version {
		h.beats = h.version != ""
		h.version, h.since = version, now
	}
}

// nodeView is the newest look at one node.
type nodeView struct {
	heart       heartbeats
	taken       time.Time
	observation Observation
	note        string
}

// observe returns what is known of a pod and its node so far, and a note on why M11 may
// not apply to the pod.
func (c *Counter) observe(ctx context.Context, pod *corev1.Pod) (Observation, string, error) {
	node := pod.Spec.NodeName
	if node == "" {
		return Observation{}, "", nil
	}
	v := c.observations.nodes[node]
	if v == nil {
		v = &nodeView{}
		c.observations.nodes[node] = v
	}
	if time.Since(v.taken) >= lookInterval {
		if err := c.observeNode(ctx, node, v); err != nil {
			return Observation{}, "", err
		}
		v.taken = time.Now()
	}
	s := v.observation
	if finished(pod) {
		first, seen := c.observations.finished[pod.UID]
		if !seen {
			first = time.Now()
			c.observations.finished[pod.UID] = first
		}
		s.FinishedFor = time.Since(first)
	}
	return s, v.note, nil
}

// observeNode updates the view of a node. It makes no more requests than it must: a node
// that beats is fine.
func (c *Counter) observeNode(ctx context.Context, node string, v *nodeView) error {
	v.observation, v.note = Observation{Grace: c.config.LegacyGrace}, ""
	if err := c.listen(ctx, node, v); err != nil {
		return err
	}
	s := &v.observation
	// The others are not listed before: if all fall silent together, none must have been seen to beat just now.
	if s.Beats && s.SilentFor < missed || s.Grace <= 0 || !s.HeartKnown || s.SilentFor < s.Grace/3 {
		return nil
	}
	beating, total, err := c.observations.count(ctx, c.config)
	switch {
	case errors.Is(err, locks.ErrForbidden):
		v.note = fmt.Sprintf("node %s is silent, but whether others are, too, cannot be told, so that its pods are waited for: %v", node, err)
	case err != nil:
		return err
	case beating*2 < total:
		v.note = fmt.Sprintf("node %s is silent, but of %d nodes only %d were seen to beat just now, so that its pods are waited for",
			node, total, beating)
	default:
		s.OthersBeat = total > 0
	}
	return nil
}

// listen reads the heartbeats of a node. The silence lasts from the answer that first
// showed the newest heartbeat to the request that found no newer one. A node that has no
// heartbeats is not silent.
func (c *Counter) listen(ctx context.Context, node string, v *nodeView) error {
	name := apierror.Object{Resource: apierror.Leases, Namespace: corev1.NamespaceNodeLease, Name: node}
	sent := time.Now()
	lease, err := rawapi.New[coordinationv1.Lease](c.config.Coordination, name).Get(ctx)
	forbidden := errors.Is(err, locks.ErrForbidden)
	switch {
	case forbidden || name.Absent(err):
		if forbidden && c.config.LegacyGrace > 0 {
			v.note = fmt.Sprintf("the heartbeats of node %s may not be read, so that its pods are waited for, dead or not: %v", node, err)
		}
		v.heart = heartbeats{}
		return nil
	case err != nil:
		return err
	}
	v.heart.see(lease.ResourceVersion, time.Now())
	v.observation.HeartKnown, v.observation.Beats = true, v.heart.beats
	v.observation.SilentFor = max(0, sent.Sub(v.heart.since))
	return nil
}

// count returns how many of all nodes were seen to beat just now, and how many there are. It
// lists them only every few seconds. A node counts as beating only after it was seen to
// beat.
func (o *observations) count(ctx context.Context, config Config) (beating, total int, err error) {
	if time.Since(o.listed) >= listInterval {
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

func (o *observations) list(ctx context.Context, config Config) error {
	leases, err := rawapi.List[coordinationv1.Lease](ctx, config.Coordination, apierror.Leases, corev1.NamespaceNodeLease, "")
	if err != nil {
		return err
	}
	before := o.hearts
	if time.Since(o.listed) > gap {
		before = nil
	}
	o.hearts, o.listed = map[string]*heartbeats{}, time.Now()
	for _, lease := range leases {
		h := cmp.Or(before[lease.Name], &heartbeats{})
		h.see(lease.ResourceVersion, o.listed)
		o.hearts[lease.Name] = h
	}
	return nil
}
