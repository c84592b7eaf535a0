// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

// partFaults are those of one part of the control plane in one zone, and of the
// answers of all parts.
var partFaults = []fault{
	{
		name: "apiserver-frozen", about: "apiserver in the leader's zone frozen for a while",
		lasts: aTakeover, asks: true, inject: apiserverFrozen, ends: thaw, promise: reconnected, costs: ofRequests,
	},
	{
		name: "etcd-leader-frozen", about: "etcd's leader frozen for a while",
		lasts: aTakeover, asks: true, inject: etcdLeaderFrozen, ends: thaw, elects: true, promise: reelection, costs: ofRequests | ofMember, stalls: electionOfEtcd,
	},
	{
		name: "etcd-leader-killed", about: "etcd's leader killed, and restarted after a while",
		lasts: aTakeover, asks: true, inject: etcdLeaderKilled, ends: settle, elects: true, promise: reelection, costs: ofRequests | ofMember, stalls: electionOfEtcd,
	},
	{
		name: "disk-slow", about: "disk of etcd's leader slow: 4 writes a second",
		lasts: aTakeover, asks: true, inject: diskSlow, ends: thaw, promise: reelection, costs: ofRequests | ofMember, stalls: electionOfEtcd,
	},
	{
		name: "requests-rejected", about: "every apiserver says 429 Too Many Requests",
		lasts: anOutage, asks: true, inject: requestsRejected, ends: admit, promise: rejection, costs: ofRequests,
	},
}

// electionOfEtcd is how long etcd's members take to elect another leader: each
// waits up to twice the second that etcd's election timeout is by default, and
// the first vote may be split.
const electionOfEtcd = 4 * time.Second

// reelection: nobody gets an answer until etcd has another leader, and a request
// to the API server in its zone is lost.
func reelection(t election.Timing, _ time.Duration) promise {
	p := reconnected(t, 0)
	if electionOfEtcd > survived(t) {
		p.gap = max(p.gap, recovery(t)+t.WithDefaults().AttemptTimeout+slack)
	}
	return promise{gap: electionOfEtcd + p.gap, changes: 2}
}

// rejection: an outage, after which candidates wait as long as the API server
// told them to.
func rejection(t election.Timing, lasted time.Duration) promise {
	p := outage(t, lasted)
	return promise{gap: p.gap + time.Second, away: p.away, changes: 1}
}

func apiserverFrozen(ctx context.Context, s *stage, _ *rand.Rand) (cure, error) {
	zone := s.leaderZone()
	if s.isDark(zone) {
		return nil, fmt.Errorf("%w: zone %s has no power", errMissed, zone)
	}
	undo := func(context.Context) error { return s.resume(testbed.APIServer, zone) }
	if err := s.bed.Parts.Pause(testbed.APIServer, zone); err != nil {
		return undo, err
	}
	return undo, s.mute(ctx, zone)
}

func etcdLeaderFrozen(ctx context.Context, s *stage, _ *rand.Rand) (cure, error) {
	zone, err := s.etcdLeader(ctx)
	if err != nil {
		return nil, err
	}
	undo := func(context.Context) error { return s.resume(testbed.Etcd, zone) }
	if err := s.bed.Parts.Pause(testbed.Etcd, zone); err != nil {
		return undo, err
	}
	return undo, s.silent(ctx, zone)
}

func etcdLeaderKilled(ctx context.Context, s *stage, _ *rand.Rand) (cure, error) {
	zone, err := s.etcdLeader(ctx)
	if err != nil {
		return nil, err
	}
	undo := func(ctx context.Context) error { return s.bed.Parts.Start(ctx, testbed.Etcd, zone) }
	if err := s.bed.Parts.Kill(ctx, testbed.Etcd, zone); err != nil {
		return undo, err
	}
	return undo, s.silent(ctx, zone)
}

func diskSlow(ctx context.Context, s *stage, _ *rand.Rand) (cure, error) {
	zone, err := s.etcdLeader(ctx)
	if err != nil {
		return nil, err
	}
	undo := func(context.Context) error {
		if s.isDark(zone) {
			return nil // it has ended with the member
		}
		return s.bed.Parts.SlowDisk(zone, 0)
	}
	if err := s.bed.Parts.SlowDisk(zone, 4); err != nil {
		return nil, errors.Join(errMissed, err)
	}
	return undo, nil
}

// requestsRejected rejects all requests, or by chance only writes.
func requestsRejected(ctx context.Context, s *stage, dice *rand.Rand) (cure, error) {
	var verbs []string
	if dice.IntN(2) == 0 {
		verbs = []string{"create", "update", "patch", "delete"}
	}
	undo := func(ctx context.Context) error {
		return s.each(func(g *group) error { return s.bed.Cluster.Admit(ctx, s.user(g)) })
	}
	return undo, s.each(func(g *group) error { return s.bed.Cluster.Reject(ctx, s.user(g), verbs...) })
}

// resume lets a part go on, unless it has lost its power meanwhile.
func (s *stage) resume(part testbed.Part, zone string) error {
	if s.isDark(zone) {
		return nil
	}
	return s.bed.Parts.Resume(part, zone)
}

// etcdLeader returns the zone of etcd's leader.
func (s *stage) etcdLeader(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	zone, err := s.bed.Parts.EtcdLeader(ctx)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errMissed, err)
	}
	return zone, nil
}
