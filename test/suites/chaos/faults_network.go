// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

// networkFaults are those in which a part of the packets is lost, and those of
// connections that go silent for good, watches too.
var networkFaults = []fault{
	{name: "leader-zone-mute", lasts: aTakeover, asks: true, inject: oneWay(true), ends: mend},
	{name: "leader-zone-deaf", lasts: aTakeover, asks: true, inject: oneWay(false), ends: mend},
	{name: "connections-silent", lasts: aTakeover, inject: silenced(testbed.BothWays)},
	{name: "answers-lost", lasts: aTakeover, inject: silenced(testbed.Answers)},
}

// oneWay cuts what the leader's zone sends, or what it receives.
func oneWay(says bool) injection {
	return func(ctx context.Context, s *stage, _ *rand.Rand) (cure, error) {
		undo := func(context.Context) error { return s.bed.Network.Heal() }
		zone, err := s.lit(s.leaderZone())
		if err != nil {
			return nil, err
		}
		for _, other := range startingWith(zone)[1:] {
			from, to := other, zone
			if says {
				from, to = zone, other
			}
			if err := s.bed.Network.PartitionOneWay(from, to); err != nil {
				return undo, err
			}
		}
		// Its member of etcd has no quorum.
		return undo, s.silent(ctx, zone)
	}
}

// silenced silences the connections of all zones.
func silenced(what testbed.Silence) injection {
	return func(ctx context.Context, s *stage, _ *rand.Rand) (cure, error) {
		for _, zone := range zones {
			if err := s.bed.Network.SilenceConnections(zone, what); err != nil {
				return nil, err
			}
		}
		// Where nobody is alive nothing is lost.
		return nil, s.soon(ctx, func() error {
			all := 0
			for _, zone := range zones {
				packets, err := s.bed.Network.Silenced(zone)
				if err != nil {
					return err
				}
				all += packets
			}
			if all == 0 {
				return fmt.Errorf("%w: no packet was lost", errMissed)
			}
			return nil
		})
	}
}

// soon waits a few seconds until a fault is seen to bite.
func (s *stage) soon(ctx context.Context, bites func() error) error {
	for began := time.Now(); ; {
		err := bites()
		if err == nil || time.Since(began) > 5*time.Second {
			return err
		}
		if err := sleep.For(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}
