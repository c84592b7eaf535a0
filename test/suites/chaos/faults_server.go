// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

// serverFaults are those of the control plane's own programs, in one zone or in all.
var serverFaults = []fault{
	{name: "apiserver-killed", lasts: aMoment, inject: apiserverKilled, ends: settle},
	{name: "apiservers-frozen", lasts: anOutage, away: true, inject: frozen(testbed.APIServer), ends: thaw},
	{name: "etcd-frozen", lasts: anOutage, away: true, inject: frozen(testbed.Etcd), ends: thaw},
	{name: "apiserver-frozen", lasts: aTakeover, asks: true, inject: onePart(testbed.APIServer, false), ends: thaw},
	{name: "etcd-leader-frozen", lasts: aTakeover, asks: true, inject: onePart(testbed.Etcd, false), ends: thaw},
	{name: "etcd-leader-killed", lasts: aTakeover, asks: true, inject: onePart(testbed.Etcd, true), ends: settle},
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
		var all errgroup.Group
		for _, zone := range zones {
			if !s.isDark(zone) {
				all.Go(func() error { return s.mute(ctx, zone) })
			}
		}
		return undo, all.Wait()
	}
}

// mute makes sure that the apiserver of a zone does not answer a write.
func (s *stage) mute(ctx context.Context, zone string) error {
	cfg := s.bed.Cluster.RESTConfig(zone)
	cfg.Timeout = 300 * time.Millisecond
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	touch := fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":%q}}}`, time.Now())
	_, err = client.CoreV1().Namespaces().Patch(ctx, s.namespace, types.MergePatchType, touch, metav1.PatchOptions{})
	if err == nil {
		return fmt.Errorf("%w: the apiserver of zone %s still answers", errMissed, zone)
	}
	return nil
}

// onePart freezes or kills the apiserver of the leader's zone, or the leader of etcd.
func onePart(part testbed.Part, kills bool) injection {
	return func(ctx context.Context, s *stage, _ *rand.Rand) (undo cure, err error) {
		zone, bites := s.leaderZone(), s.mute
		if part == testbed.Etcd {
			bites = s.silent
			if zone, err = s.etcdLeader(ctx); err != nil {
				return nil, err
			}
		}
		if _, err := s.lit(zone); err != nil {
			return nil, err
		}
		if kills {
			undo = func(ctx context.Context) error { return s.bed.Parts.Start(ctx, part, zone) }
			err = s.bed.Parts.Kill(ctx, part, zone)
		} else {
			undo = func(context.Context) error {
				if s.isDark(zone) { // it has lost its power meanwhile
					return nil
				}
				return s.bed.Parts.Resume(part, zone)
			}
			err = s.bed.Parts.Pause(part, zone)
		}
		if err != nil {
			return undo, err
		}
		return undo, bites(ctx, zone)
	}
}

// etcdLeader returns the zone of etcd's leader: that which leads in the latest term.
func (s *stage) etcdLeader(ctx context.Context) (leader string, err error) {
	err = s.soon(ctx, func() error {
		latest := uint64(0)
		for _, zone := range zones {
			if term := (etcd{s.bed.Cluster.EtcdURL(zone)}).leads(ctx); term > latest {
				leader, latest = zone, term
			}
		}
		if latest == 0 {
			return fmt.Errorf("%w: no member of etcd leads", errMissed)
		}
		return nil
	})
	return leader, err
}
