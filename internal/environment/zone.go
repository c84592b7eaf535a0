// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
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

// How long after one question about the zone comes the next, and up to a fifth more. Whoever grants a
// right or labels a node does so within minutes of the start, and waits for the effect. Later the
// questions of a crowd that gets no answer would be a burden.
const (
	zoneFirst   = time.Second
	zoneSoon    = 15 * time.Second // the most in the first soonLasts
	soonLasts   = 10 * time.Minute
	zoneLater   = 5 * time.Minute
	zoneRefresh = 30 * time.Minute // once the zone is known
	zoneSpread  = 0.2
)

// lookup reads the zone of a node, for most at the longest, on connections that are closed afterwards.
func lookup(ctx context.Context, cfg *rest.Config, node string, most time.Duration) (string, error) {
	switch {
	case node == "":
		return "", errors.New("the node is not known: set NODE_NAME by the downward API (fieldRef spec.nodeName), as tokens name it only since Kubernetes 1.30")
	case cfg == nil:
		return "", errors.New("there is no configuration to reach the API server with")
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
	look := func(ctx context.Context) (string, error) { return zone.Lookup(ctx, core, node) }
	z, err := rawapi.Ask(ctx, timing.DefaultRenewInterval, most, look)
	if err != nil {
		return "", fmt.Errorf("looking up the zone of node %q: %w", node, err)
	}
	return z, nil
}

// findZone looks up the zone at the start, and logs why it is not known.
func (s *Self) findZone(ctx context.Context, cfg *rest.Config, log logr.Logger) {
	z, err := lookup(ctx, cfg, s.Node, startPatience)
	if err == nil {
		s.Zone, s.Found.Zone = z, FromNode
	} else if ctx.Err() == nil {
		log.Info("going on without a zone, so that leadership is not placed by zone", "reason", err.Error())
	}
}

// WatchZone calls tell whenever the zone of this process becomes known or changes after the start,
// until ctx ends. Of a zone that the program or the environment names, and of one whose node is not
// known, it tells nothing.
func (e *Environment) WatchZone(ctx context.Context, tell func(zone string)) {
	known := e.Self.Zone
	if e.Self.Node == "" || known != "" && e.Self.Found.Zone != FromNode {
		return
	}
	look := func() (string, error) { return lookup(ctx, e.Config, e.Self.Node, laterPatience) }
	watchZone(ctx, known, look, func(now string) {
		e.Logger.Info("the zone of this process is known", "zone", now, "node", e.Self.Node, "before", known)
		known = now
		tell(now)
	})
}

// watchZone looks again and again, and tells each zone that differs from the one before.
func watchZone(ctx context.Context, known string, look func() (string, error), tell func(zone string)) {
	began := time.Now()
	for pause := zoneFirst; ; pause = min(2*pause, zoneSoon) {
		switch {
		case known != "":
			pause = zoneRefresh
		case time.Since(began) > soonLasts:
			pause = zoneLater
		}
		if sleep.For(ctx, wait.Jitter(pause, zoneSpread)) != nil {
			return
		}
		if z, err := look(); err == nil && z != known {
			known = z
			tell(z)
		}
	}
}
