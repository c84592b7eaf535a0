// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/transport"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/zone"
)

// zonePatience bounds the lookup: an election without a zone is better than
// one that has not begun.
const zonePatience = 5 * time.Second

// zoneOf returns the zone of a node, or "" after having logged why.
func zoneOf(ctx context.Context, cfg *rest.Config, log logr.Logger, node string) string {
	z, err := lookup(ctx, cfg, node)
	if err != nil {
		log.Info("going on without a zone: leadership will not be placed by zone; set NODE_ZONE or the zone in the configuration, or let it be looked up", "reason", err.Error())
	}
	return z
}

// lookup reads the node's zone on connections that are closed afterwards.
func lookup(ctx context.Context, cfg *rest.Config, node string) (string, error) {
	if node == "" {
		return "", errors.New("the node is not known: set NODE_NAME by the downward API (fieldRef spec.nodeName)")
	}
	if cfg == nil {
		return "", errors.New("there is no configuration to reach the API server with")
	}
	cfg = named(cfg)
	tr, err := transport.New(cfg, transport.Options{AttemptTimeout: zonePatience})
	if err != nil {
		return "", fmt.Errorf("looking up the zone of node %q: %w", node, err)
	}
	defer tr.CloseConnections()
	client, err := restClient(cfg, tr, "/api", corev1.SchemeGroupVersion, corev1.AddToScheme)
	if err != nil {
		return "", fmt.Errorf("looking up the zone of node %q: %w", node, err)
	}
	ctx, cancel := context.WithTimeout(ctx, zonePatience)
	defer cancel()
	return zone.Lookup(ctx, client, node)
}

// checkZones returns what is wrong with preferred zones.
func checkZones(preferred []string) error {
	var errs []error
	for i, z := range preferred {
		wrong := validation.IsValidLabelValue(z)
		switch {
		case z == "":
			errs = append(errs, fmt.Errorf("preferred zone %d of %d has no name: leave it out", i+1, len(preferred)))
		case len(wrong) > 0:
			errs = append(errs, fmt.Errorf("preferred zone %q is no zone: %s", z, strings.Join(wrong, "; ")))
		case slices.Contains(preferred[:i], z):
			errs = append(errs, fmt.Errorf("preferred zone %q is named twice: name it once, in its place", z))
		}
	}
	return errors.Join(errs...)
}

// peers are those that a lock tells of. What preferred zones have had no candidate
// for a LeaseDuration is logged: their names may be wrong.
func (e *Election) peers(lock roster) func(context.Context, func([]locks.Peer)) {
	if len(e.options.PreferredZones) == 0 {
		return lock.Peers
	}
	return func(ctx context.Context, tell func([]locks.Peer)) {
		var empty []string
		forget := func() bool { return false }
		defer func() { forget() }()
		lock.Peers(ctx, func(all []locks.Peer) {
			tell(all)
			now := slices.DeleteFunc(slices.Clone(e.options.PreferredZones), func(z string) bool {
				return slices.ContainsFunc(all, func(p locks.Peer) bool { return p.Zone == z })
			})
			if slices.Equal(now, empty) {
				return
			}
			forget()
			if empty = now; len(now) > 0 {
				forget = time.AfterFunc(e.options.Timing.WithDefaults().LeaseDuration, func() {
					e.log.Info("no candidate is known in some preferred zones: others lead meanwhile; are the names right?", "zones", now)
				}).Stop
			}
		})
	}
}
