// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
)

// processFaults are those of the candidates' own processes.
var processFaults = []fault{
	{name: "leader-killed", lasts: aTakeover, inject: leaderKilled},
	{name: "leader-stopped", lasts: aTakeover, inject: leaderStopped, ends: mend},
	{name: "follower-killed", lasts: aMoment, inject: followerKilled},
	{name: "candidates-rolled", lasts: aMoment, inject: candidatesRolled, ends: settle},
}

func leaderKilled(ctx context.Context, s *stage, _ *rand.Rand) (cure, error) {
	return nil, s.each(func(g *group) error {
		leader, err := g.awaitLeader(ctx)
		if err != nil {
			return err
		}
		return leader.kill(ctx)
	})
}

func leaderStopped(ctx context.Context, s *stage, _ *rand.Rand) (cure, error) {
	var all []*seat
	err := s.each(func(g *group) error {
		leader, err := g.awaitLeader(ctx)
		if err != nil {
			return err
		}
		s.mu.Lock()
		all = append(all, leader)
		s.mu.Unlock()
		return leader.stop()
	})
	return func(context.Context) error {
		var errs []error
		for _, one := range all {
			errs = append(errs, one.goOn())
		}
		return errors.Join(errs...)
	}, err
}

func followerKilled(ctx context.Context, s *stage, dice *rand.Rand) (cure, error) {
	which := dice.IntN(len(zones))
	return nil, s.each(func(g *group) error {
		all := g.followers()
		if len(all) == 0 {
			return fmt.Errorf("%w: nobody follows among %s", errMissed, g.name)
		}
		return all[which%len(all)].kill(ctx)
	})
}

// patience is how long a kubelet of this test waits for a program that it has
// asked to exit, before it kills it.
const patience = 5 * time.Second

func candidatesRolled(_ context.Context, s *stage, _ *rand.Rand) (cure, error) {
	ctx, cancel := context.WithTimeout(context.Background(), healTime)
	var all errgroup.Group
	first := startingWith(s.leaderZone())
	for _, g := range s.groups {
		all.Go(func() error {
			for _, zone := range first {
				if err := g.roll(ctx, zone); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return func(context.Context) error {
		defer cancel()
		return all.Wait()
	}, nil
}

// roll replaces the candidate of a zone, if one runs there.
func (g *group) roll(ctx context.Context, zone string) error {
	old := g.seat(zone)
	if !old.alive() || g.stage.isDark(zone) {
		return nil
	}
	if err := old.terminate(ctx); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if old.Wait(waiting) != nil && old.alive() {
		if err := old.kill(ctx); err != nil {
			return err
		}
	}
	if g.stage.isDark(zone) {
		return nil // it is restarted when the zone has power
	}
	one, err := g.start(ctx, zone)
	if err != nil {
		return err
	}
	waiting, cancel = context.WithTimeout(ctx, patience)
	defer cancel()
	_, _ = one.Await(waiting, "started", time.Time{}) // as soon as it is Ready; the next one does not wait forever
	return nil
}

// stop freezes the process.
func (s *seat) stop() error {
	if !s.alive() {
		return fmt.Errorf("%w: %s has ended by itself", errMissed, s.Identity)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pauses = append(s.pauses, pause{from: time.Now()})
	return s.Pause()
}

// goOn ends what stop began. It leaves a process alone that has been killed
// meanwhile.
func (s *seat) goOn() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.pauses); n > 0 && s.pauses[n-1].to.IsZero() {
		s.pauses[n-1].to = time.Now()
	}
	if !s.alive() {
		return nil
	}
	return s.Resume()
}
