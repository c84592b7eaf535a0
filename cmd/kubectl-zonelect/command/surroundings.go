// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/locks"
)

// Gone is the state of a pod, or of a node, that does not exist.
const Gone = "Gone"

// The states of what exists, besides the phases of pods.
const (
	ready       = "Ready"
	notReady    = "NotReady"
	terminating = "Terminating"
)

// surroundings are the pods and the nodes of candidates, as far as they may be
// read. A presence only says who was there when it was written.
type surroundings struct {
	pods  map[string]string // states by the name of the presence
	nodes map[string]string // states by name
	zones []string          // those that have nodes; nil where that is not known
}

// addSurroundings reads the pods and the nodes of the candidates.
func (l looker) addSurroundings(ctx context.Context, f *findings) error {
	for _, part := range []struct {
		read    func(context.Context, *findings) error
		without string
	}{
		{l.addPods, "whether the candidates' pods run is not known"},
		{l.addNodes, "whether the candidates' nodes are ready is not known"},
		{l.addZones, "which zones have nodes is not known"},
	} {
		err := part.read(ctx, f)
		if err != nil && !errors.Is(err, locks.ErrForbidden) {
			return err
		}
		if err != nil {
			f.notes = append(f.notes, part.without+": "+l.role.explained(err))
		}
	}
	return nil
}

func (l looker) addPods(ctx context.Context, f *findings) error {
	pods := map[string]string{}
	for _, p := range f.presences {
		id := apierror.Object{Resource: apierror.Pods, Namespace: f.namespace, Name: p.Pod.Name}
		pod, err := rawapi.New[corev1.Pod](l.core, id).Get(ctx)
		if err != nil && !id.Absent(err) {
			return err
		}
		if err != nil {
			pod = nil
		}
		pods[p.Name] = podState(pod, p)
	}
	f.around.pods = pods
	return nil
}

// podState says what the API server knows of a presence's pod.
func podState(pod *corev1.Pod, of presence.Object) string {
	switch {
	case pod == nil || pod.UID != of.Pod.UID:
		return Gone
	case pod.DeletionTimestamp != nil:
		return terminating
	case pod.Status.Phase != corev1.PodRunning:
		return cmp.Or(string(pod.Status.Phase), string(corev1.PodUnknown))
	case slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}):
		return ready
	default:
		return notReady
	}
}

func (l looker) addNodes(ctx context.Context, f *findings) error {
	nodes := map[string]string{}
	for _, p := range f.presences {
		if _, known := nodes[p.Node]; known || p.Node == "" {
			continue
		}
		if len(validation.IsDNS1123Subdomain(p.Node)) > 0 { // it is what anybody wrote
			nodes[p.Node] = Gone
			continue
		}
		id := apierror.Object{Resource: apierror.Nodes, Name: p.Node}
		node, err := rawapi.New[corev1.Node](l.core, id).Get(ctx)
		switch {
		case id.Absent(err):
			nodes[p.Node] = Gone
		case err != nil:
			return err
		case slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}):
			nodes[p.Node] = ready
		default:
			nodes[p.Node] = notReady
		}
	}
	f.around.nodes = nodes
	return nil
}

// mostZones bounds how many zones are looked for.
const mostZones = 20

// addZones finds the zones that have nodes, by one request for each: there may
// be thousands of nodes.
func (l looker) addZones(ctx context.Context, f *findings) error {
	var zones []string
	for len(zones) < mostZones {
		others := corev1.LabelTopologyZone
		if len(zones) > 0 {
			others += "," + corev1.LabelTopologyZone + " notin (" + strings.Join(zones, ",") + ")"
		}
		list := &corev1.NodeList{}
		err := rawapi.Request(l.core, http.MethodGet, apierror.Nodes, "").Param("labelSelector", others).Param("limit", "1").Do(ctx).Into(list)
		if err != nil {
			return apierror.Object{Resource: apierror.Nodes}.Explain(apierror.List, err)
		}
		zone := ""
		if len(list.Items) > 0 {
			zone = list.Items[0].Labels[corev1.LabelTopologyZone]
		}
		if zone == "" {
			break
		}
		zones = append(zones, zone)
	}
	slices.Sort(zones)
	f.around.zones = zones
	return nil
}
