// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

// serverFaults are those of the control plane's own programs.
var serverFaults = []fault{
	{
		name: "apiserver-killed", about: "an apiserver killed and restarted",
		lasts: aMoment, inject: apiserverKilled, ends: settle, promise: untouched, costs: ofRequests,
	},
	{
		name: "apiservers-frozen", about: "every apiserver frozen for a while",
		lasts: anOutage, inject: frozen(testbed.APIServer), ends: thaw, away: true, promise: outage, costs: ofRequests,
	},
	{
		name: "etcd-frozen", about: "etcd frozen for a while",
		lasts: anOutage, inject: frozen(testbed.Etcd), ends: thaw, away: true, promise: outage, costs: ofRequests,
	},
}

// apiserverKilled does not wait until the apiserver is back: its cure does.
func apiserverKilled(ctx context.Context, s *stage, dice *rand.Rand) (cure, error) {
	zone := s.leaderZone()
	if dice.IntN(2) == 0 || s.isDark(zone) {
		zone = s.otherZone(dice)
	}
	if s.isDark(zone) {
		return nil, fmt.Errorf("%w: zone %s has no power", errMissed, zone)
	}
	host := s.bed.Cluster.RESTConfig(zone).Host[len("https://"):]
	done := make(chan error, 1)
	go func() { done <- s.bed.Parts.RestartAPIServer(context.WithoutCancel(ctx), zone) }()
	undo := func(context.Context) error { return <-done }
	for began := time.Now(); time.Since(began) < time.Second; {
		conn, err := net.DialTimeout("tcp", host, 100*time.Millisecond)
		if err != nil {
			return undo, nil
		}
		_ = conn.Close()
	}
	return undo, fmt.Errorf("%w: the apiserver of zone %s was always there", errMissed, zone)
}

// frozen is the fault that freezes a part in all zones.
func frozen(part testbed.Part) injection {
	return func(ctx context.Context, s *stage, _ *rand.Rand) (cure, error) {
		undo := func(context.Context) error { return s.bed.Parts.Resume(part) }
		if err := s.bed.Parts.Pause(part); err != nil {
			return undo, err
		}
		return undo, s.unanswered(ctx)
	}
}

// unanswered makes sure that no apiserver answers a write.
func (s *stage) unanswered(ctx context.Context) error {
	return s.inEachZone(func(zone string) error { return s.mute(ctx, zone) })
}

// mute makes sure that the apiserver of a zone does not answer a write.
func (s *stage) mute(ctx context.Context, zone string) error {
	cfg := s.bed.Cluster.RESTConfig(zone)
	cfg.Timeout = 300 * time.Millisecond
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	if err := touch(ctx, client, s.namespace); err == nil {
		return fmt.Errorf("%w: the apiserver of zone %s still answers", errMissed, zone)
	}
	return nil
}
