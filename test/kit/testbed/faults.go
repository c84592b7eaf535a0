// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// CutPower takes a zone's power away. First its link goes dark, so that no
// connection is closed, refused or reset by it; then its kubelet stops and all
// its processes are killed, those of StartProcess too. When it returns they
// are gone. Virtual IPs go on leading to it for EndpointLease. If ctx ends
// before, the zone is dark, but some processes may not be reaped yet.
func (t *Testbed) CutPower(ctx context.Context, zone string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	z, err := t.poweredZone(zone)
	if err != nil {
		return fmt.Errorf("cut the power of zone %s: %w", zone, err)
	}
	z.dark = true
	z.epoch++
	if err := t.settle(ctx); err != nil {
		return fmt.Errorf("cut the power of zone %s: %w", zone, err)
	}
	err = z.kill(ctx)
	t.expireLater(z)
	t.say("zone %s: the power is cut", zone)
	return errors.Join(err, t.moveControllers(ctx))
}

// Restore gives zones their power back and waits until their etcd members,
// apiservers and kubelets are ready, and virtual IPs lead to them. The programs
// that ran there are the caller's to start again. A zone that has power already
// is left alone. Without a quorum of etcd no zone becomes ready: restore zones
// that it takes to have one in the same call.
func (t *Testbed) Restore(ctx context.Context, zones ...string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var dark []*zone
	for _, name := range zones {
		z, err := t.zone(name)
		if err != nil {
			return fmt.Errorf("restore zone %s: %w", name, err)
		}
		if z.dark {
			dark = append(dark, z)
		}
	}
	for _, z := range dark {
		z.dark = false
		z.epoch++
	}
	if err := t.settle(ctx); err != nil {
		return fmt.Errorf("restore %v: %w", zones, err)
	}
	if err := t.bootAll(ctx, dark); err != nil {
		return errors.Join(fmt.Errorf("restore %v: %w", zones, err), t.darken(dark))
	}
	return errors.Join(t.settle(ctx), t.moveControllers(ctx))
}

// darken takes the power from zones that did not come up, so that Restore can
// be tried again. The caller holds mu.
func (t *Testbed) darken(zones []*zone) error {
	ctx, cancel := context.WithTimeout(t.ctx, closeWait)
	defer cancel()
	for _, z := range zones {
		z.dark, z.expired = true, true
	}
	err := t.settle(ctx)
	for _, z := range zones {
		err = errors.Join(err, z.kill(ctx))
	}
	return err
}

// Partition cuts the traffic between two zones, both ways, established
// connections too, and silently. The test process still reaches both.
func (t *Testbed) Partition(a, b string) error {
	return t.sever(pair{a, b}, pair{b, a})
}

// PartitionOneWay drops what goes from one zone to another, silently; the other
// way everything passes. So no new connection opens between the two, and on an
// established one only one side hears the other.
func (t *Testbed) PartitionOneWay(from, to string) error {
	return t.sever(pair{from, to})
}

// PartitionFromAll cuts the traffic between a zone and all others, as
// Partition does. The others' virtual IPs drop it after EndpointLease; its own
// learns of no change until Heal.
func (t *Testbed) PartitionFromAll(zone string) error {
	var ways []pair
	for _, other := range t.config.Zones {
		if other != zone {
			ways = append(ways, pair{zone, other}, pair{other, zone})
		}
	}
	return t.sever(ways...)
}

// sever cuts traffic between zones.
func (t *Testbed) sever(ways ...pair) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, way := range ways {
		for _, name := range []string{way.from, way.to} {
			if _, err := t.zone(name); err != nil {
				return fmt.Errorf("partition zone %s from %s: %w", way.from, way.to, err)
			}
		}
		if way.from == way.to {
			return fmt.Errorf("partition zone %s: it cannot be cut off from itself", way.from)
		}
	}
	before := t.cutOffZones()
	for _, way := range ways {
		t.state.severed[way] = true
	}
	for _, name := range t.cutOffZones() {
		if !slices.Contains(before, name) {
			t.frozenVIP[name] = t.endpoints()
			t.zones[name].epoch++
			t.expireLater(t.zones[name])
		}
	}
	if err := t.settle(t.ctx); err != nil {
		return err
	}
	return t.moveControllers(t.ctx)
}

// cutOffZones are the zones that are partitioned from all others.
func (t *Testbed) cutOffZones() []string {
	var cut []string
	for _, name := range t.config.Zones {
		if t.cutOff(name) {
			cut = append(cut, name)
		}
	}
	return cut
}

// Heal ends all partitions. Connections that have outlived them go on.
func (t *Testbed) Heal() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return errors.New("heal partitions: the testbed is closed")
	}
	for _, name := range t.cutOffZones() {
		if z := t.zones[name]; t.well(z) {
			z.epoch++
			z.expired = false
		}
	}
	clear(t.frozenVIP)
	clear(t.state.severed)
	if err := t.settle(t.ctx); err != nil {
		return err
	}
	return t.moveControllers(t.ctx)
}
