// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/zone"
)

// patienceOf bounds a question about this process: for how long to wait, and after which time
// another connection is tried.
type patienceOf struct{ overtakes, all time.Duration }

// An election without a zone is better than one that has not begun, and what is not known at the
// start is asked for again.
var (
	startPatience = patienceOf{timing.DefaultRenewInterval, PatienceOf(timing.Timing{}.WithDefaults())}
	laterPatience = patienceOf{timing.DefaultRenewInterval, 10 * time.Second}
)

// How long after one question about the zone comes the next, plus or minus a fifth. Whoever grants a
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

// lookup reads the zone of a node.
func lookup(ctx context.Context, cfg *rest.Config, node string, most patienceOf) (string, error) {
	switch {
	case node == "":
		return "", errors.New("the node is not known: set NODE_NAME by the downward API (fieldRef spec.nodeName), as tokens name it only since Kubernetes 1.30")
	case cfg == nil:
		return "", errors.New("there is no configuration to reach the API server with")
	}
	z, err := asked(ctx, cfg, most, func(ctx context.Context, core rest.Interface) (string, error) { return zone.Lookup(ctx, core, node) })
	if err != nil {
		return "", fmt.Errorf("looking up the zone of node %q: %w", node, err)
	}
	return z, nil
}

// findZone looks up the zone at the start, and logs why it is not known.
func (s *Self) findZone(ctx context.Context, cfg *rest.Config, log logr.Logger) {
	z, err := lookup(ctx, cfg, s.Node, startPatience)
	switch {
	case err == nil:
		s.Zone, s.Found.Zone = z, FromNode
	case ctx.Err() != nil: // who is told to end goes nowhere
	case s.Node == "":
		log.Info("going on without a zone: leadership will not be placed by zone", "reason", err.Error())
	default:
		log.Info("going on without a zone until it is known: leadership is not placed by zone so far", "reason", err.Error())
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
	paced := func(o ...backoff.ExponentialBackOffOpts) *backoff.ExponentialBackOff {
		return backoff.NewExponentialBackOff(append(o, backoff.WithRandomizationFactor(zoneSpread), backoff.WithMaxElapsedTime(0))...)
	}
	asking := paced(backoff.WithInitialInterval(zoneFirst), backoff.WithMaxInterval(zoneSoon))
	refreshing := paced(backoff.WithInitialInterval(zoneRefresh), backoff.WithMaxInterval(zoneRefresh))
	for {
		next := asking
		switch {
		case known != "":
			next = refreshing
		case time.Since(began) > soonLasts:
			asking.MaxInterval = zoneLater
		}
		if sleep.For(ctx, next.NextBackOff()) != nil {
			return
		}
		if z, err := look(); err == nil && z != known {
			known = z
			tell(z)
		}
	}
}
