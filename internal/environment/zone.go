// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/internal/transport"
	"github.com/zonelect/zonelect/zone"
)

// How long the question about the zone may take. An election without a zone is better than one that has
// not begun, and what is not known at the start is asked for again.
const (
	startPatience = 2 * timing.DefaultRenewDeadline // a dial and an answer, as for a read of the elector
	laterPatience = 10 * time.Second
)

// lookup reads the zone of a node, for most at the longest, on connections that are closed afterwards.
func lookup(ctx context.Context, cfg *rest.Config, node string, most time.Duration) (string, error) {
	if node == "" {
		return "", errors.New("the node is not known: set NODE_NAME by the downward API (fieldRef spec.nodeName), " +
			"as tokens name it only since Kubernetes 1.30")
	}
	cfg = Named(cfg)
	tr, err := transport.New(cfg, transport.Options{})
	if err != nil {
		return "", err
	}
	defer tr.CloseConnections()
	core, err := restClient(cfg, tr, corev1.SchemeGroupVersion)
	if err != nil {
		return "", err
	}
	return rawapi.Ask(ctx, most, func(ctx context.Context) (string, error) { return zone.Lookup(ctx, core, node) })
}

// WatchZone calls tell once the zone of this process becomes known after the start, unless ctx ends first:
// somebody grants the right to read nodes, labels the node, or the API server answers again. It tells
// nothing if the zone is known, or the node is not.
func (e *Environment) WatchZone(ctx context.Context, tell func(zone string)) {
	if e.Self.Node == "" || e.Self.Zone != "" {
		return
	}
	look := func() (string, error) { return lookup(ctx, e.Config, e.Self.Node, laterPatience) }
	if z := awaitZone(ctx, look); z != "" {
		e.Logger.Info("the zone of this process is known", "zone", z, "node", e.Self.Node)
		tell(z)
	}
}

// mostPause is how long the pause between two questions about the zone may be, and up to half more: those
// of a crowd that gets no answer would be a burden.
const mostPause = 5 * time.Minute

// awaitZone looks until the zone is known, after pauses that grow. It is empty if ctx ends first.
func awaitZone(ctx context.Context, look func() (string, error)) string {
	pauses := sleep.Delays(time.Second, mostPause)
	for sleep.For(ctx, pauses.NextBackOff()) == nil {
		if z, err := look(); err == nil {
			return z
		}
	}
	return ""
}
