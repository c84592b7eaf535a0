// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

// networkFaults are those in which a part of the packets is lost.
var networkFaults = []fault{
	{
		name: "leader-zone-mute", about: "leader's zone not heard by the rest, and hears it",
		lasts: aTakeover, asks: true, inject: oneWay(true), early: true, ends: mend, promise: takeover, costs: ofRequests | ofMember | ofCandidate,
	},
	{
		name: "leader-zone-deaf", about: "leader's zone hears nothing of the rest, and is heard",
		lasts: aTakeover, asks: true, inject: oneWay(false), early: true, ends: mend, promise: heard, costs: ofRequests | ofMember | ofCandidate,
	},
	{
		name: "network-bad", about: "leader's zone 50 to 100 ms away, 5 % of packets lost", namespaces: true,
		lasts: aTakeover, asks: true, inject: networkBad, ends: mend, promise: badNetwork, costs: ofRequests, stalls: hang + redials,
	},
	{
		name: "connections-silent", about: "open connections to the API silent for good, watches too", namespaces: true,
		lasts: aTakeover, inject: silenced(testbed.BothWays), promise: reconnected, costs: ofRequests,
	},
	{
		name: "answers-lost", about: "open connections to the API carry requests, no answers", namespaces: true,
		lasts: aTakeover, inject: silenced(testbed.Answers), promise: reconnected, costs: ofRequests,
	},
}

// badWeather is what a connection between far continents has on a bad day.
var badWeather = testbed.Weather{Delay: 50 * time.Millisecond, Jitter: 50 * time.Millisecond, Loss: 0.05}

// badNetwork: a packet that is lost twice arrives more than a second late. So a
// term may end, and another candidate lead, once in a lease.
func badNetwork(t election.Timing, lasted time.Duration) promise {
	p := takeover(t, lasted)
	p.changes += int(lasted / t.LeaseDuration)
	return p
}

// heard: the leader's next renewal still lands, and nobody answers it.
func heard(t election.Timing, lasted time.Duration) promise {
	p := takeover(t, lasted)
	p.gap += t.WithDefaults().RenewInterval
	return p
}

// reconnected: one request is lost.
func reconnected(t election.Timing, lasted time.Duration) promise {
	p := untouched(t, lasted)
	return promise{gap: p.gap + t.WithDefaults().AttemptTimeout, changes: p.changes}
}

// oneWay cuts what the leader's zone sends, or what it receives.
func oneWay(says bool) injection {
	return func(ctx context.Context, s *stage, _ *rand.Rand) (cure, error) {
		zone := s.leaderZone()
		undo := func(context.Context) error { return s.bed.Network.Heal() }
		if s.isDark(zone) {
			return nil, fmt.Errorf("%w: zone %s has no power", errMissed, zone)
		}
		s.take(zone)
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

func networkBad(ctx context.Context, s *stage, _ *rand.Rand) (cure, error) {
	zone := s.leaderZone()
	undo := func(context.Context) error { return s.bed.Network.SetWeather(zone, testbed.Weather{}) }
	late, lost := s.bed.Network.Weathered()
	if err := s.bed.Network.SetWeather(zone, badWeather); err != nil {
		return undo, err
	}
	return undo, s.soon(ctx, func() error {
		if moreLate, moreLost := s.bed.Network.Weathered(); moreLate == late || moreLost == lost {
			return fmt.Errorf("%w: %d packets were late and %d lost", errMissed, moreLate-late, moreLost-lost)
		}
		return nil
	})
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
