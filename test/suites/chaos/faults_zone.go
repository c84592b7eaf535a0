// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// zoneFaults are those of whole zones, and of the network between them.
var zoneFaults = []fault{
	{name: "leader-zone-dark", lasts: aTakeover, inject: leaderZoneDark, ends: boot},
	{name: "follower-zone-dark", lasts: aMoment, inject: followerZoneDark, ends: boot},
	{name: "leader-zone-cut", lasts: aTakeover, inject: leaderZoneCut, ends: mend},
	{name: "quorum-lost", lasts: aMoment, away: true, inject: quorumLost, ends: boot},
	{name: "quorum-and-leader-lost", lasts: aMoment, away: true, inject: quorumAndLeaderLost, ends: boot},
}

func leaderZoneDark(ctx context.Context, s *stage, _ *rand.Rand) (cure, error) {
	return s.darken(ctx, s.leaderZone())
}

func followerZoneDark(ctx context.Context, s *stage, dice *rand.Rand) (cure, error) {
	return s.darken(ctx, s.otherZone(dice))
}

func quorumLost(ctx context.Context, s *stage, _ *rand.Rand) (cure, error) {
	return s.darken(ctx, startingWith(s.leaderZone())[1:]...)
}

func quorumAndLeaderLost(ctx context.Context, s *stage, dice *rand.Rand) (cure, error) {
	return s.darken(ctx, s.leaderZone(), s.otherZone(dice))
}

// otherZone is a zone without the first group's leader.
func (s *stage) otherZone(dice *rand.Rand) string {
	return startingWith(s.leaderZone())[1+dice.IntN(len(zones)-1)]
}

// darken cuts the power of zones, and so kills their candidates. It leaves
// zones that are already dark to the other fault.
func (s *stage) darken(ctx context.Context, zones ...string) (cure, error) {
	var cut []string
	undo := func(ctx context.Context) error {
		err := s.bed.Restore(ctx, cut...)
		s.setDark(false, cut...)
		return err
	}
	for _, zone := range zones {
		if s.isDark(zone) {
			continue
		}
		s.setDark(true, zone)
		cut = append(cut, zone)
		gone := map[*seat]bool{} // gone earlier, so this fault did not end them
		for _, one := range s.in(zone) {
			gone[one] = !one.alive()
		}
		now := time.Now()
		if err := s.bed.CutPower(ctx, zone); err != nil {
			return undo, err
		}
		for _, one := range s.in(zone) {
			if one.alive() {
				return undo, fmt.Errorf("%w: %s outlived the power of its zone", errMissed, one.Identity)
			}
			if !gone[one] {
				one.end(now)
			}
		}
	}
	if len(cut) == 0 {
		return nil, fmt.Errorf("%w: %v had no power anyway", errMissed, zones)
	}
	return undo, nil
}

// in returns all candidates that a zone has or had.
func (s *stage) in(zone string) (all []*seat) {
	for _, g := range s.groups {
		for _, one := range g.all() {
			if one.Zone == zone {
				all = append(all, one)
			}
		}
	}
	return all
}

func (s *stage) setDark(dark bool, zones ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, zone := range zones {
		s.dark[zone] = dark
	}
}

// lit returns the zone, or an error if its power is cut.
func (s *stage) lit(zone string) (string, error) {
	if s.isDark(zone) {
		return "", fmt.Errorf("%w: zone %s has no power", errMissed, zone)
	}
	return zone, nil
}

func (s *stage) isDark(zone string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dark[zone]
}

func leaderZoneCut(ctx context.Context, s *stage, _ *rand.Rand) (cure, error) {
	undo := func(context.Context) error { return s.bed.Network.Heal() }
	zone, err := s.lit(s.leaderZone())
	if err != nil {
		return nil, err
	}
	if err := s.bed.Network.PartitionFromAll(zone); err != nil {
		return undo, err
	}
	// Its member of etcd has no quorum.
	return undo, s.silent(ctx, zone)
}

// silent makes sure that a zone's etcd does not get anything done.
func (s *stage) silent(ctx context.Context, zone string) error {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	if _, err := (etcd{s.bed.Cluster.EtcdURL(zone)}).now(ctx); err == nil {
		return fmt.Errorf("%w: etcd in zone %s still answers", errMissed, zone)
	}
	return nil
}
