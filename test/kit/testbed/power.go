// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
)

// CutPower takes a zone's power away. First its link goes dark, so that it
// closes, refuses or resets no connection; then its kubelet stops and all its
// processes are killed, including those of StartProcess. When CutPower returns
// they are gone. Virtual IPs keep leading to the zone for EndpointLease. If ctx
// ends before, the zone is dark, but some processes may not be reaped yet.
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
	return errors.Join(err, t.controllers.move(ctx))
}

// Restore gives zones their power back and waits until their etcd members,
// apiservers and kubelets are ready, and virtual IPs lead to them. The caller
// must restart the programs that ran there. A zone that already has power is
// left alone. Without a quorum of etcd no zone becomes ready: restore the zones
// that a quorum needs in the same call. If it fails, the testbed cannot be used again.
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
	if err := t.Parts.bootAll(ctx, dark); err != nil {
		return fmt.Errorf("restore %v: %w", zones, err)
	}
	return errors.Join(t.settle(ctx), t.controllers.move(ctx))
}
