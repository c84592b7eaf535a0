// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// zoneFaults are those of whole zones, and of the network between them.
var zoneFaults = []fault{
	{
		name: "leader-zone-dark", about: "leader's zone loses power",
		lasts: aTakeover, inject: leaderZoneDark, ends: boot, promise: takeover,
	},
}

func leaderZoneDark(ctx context.Context, s *stage, _ *rand.Rand) (func(context.Context) error, error) {
	return s.darken(ctx, s.leaderZone())
}

// darken cuts the power of a zone, and with it its candidates.
func (s *stage) darken(ctx context.Context, zones ...string) (func(context.Context) error, error) {
	for _, zone := range zones {
		if err := s.bed.CutPower(ctx, zone); err != nil {
			return nil, err
		}
		for _, g := range s.groups {
			seat := g.seat(zone)
			select {
			case <-seat.Done():
				seat.end()
			default:
				return nil, fmt.Errorf("%w: %s outlived the power of its zone", errMissed, seat.Identity)
			}
		}
	}
	return func(ctx context.Context) error { return s.bed.Restore(ctx, zones...) }, nil
}
