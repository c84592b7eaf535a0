// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// SteerVIP leads new connections from a zone through its virtual IP to the
// apiservers of these zones only, dead or not; with no zones named, back to
// normal. Established connections stay where they are.
func (t *Testbed) SteerVIP(fromZone string, backends ...string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range append([]string{fromZone}, backends...) {
		if _, err := t.zone(name); err != nil {
			return fmt.Errorf("steer the virtual IP of zone %s: %w", fromZone, err)
		}
	}
	t.steer[fromZone] = slices.Clone(backends)
	return t.settle(t.ctx)
}

// Backends returns the zones whose apiservers the virtual IP of a zone picks
// from for new connections.
func (t *Testbed) Backends(zone string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.state.vip[zone])
}

// settle brings the network into the state that the testbed is in. The caller
// holds mu.
func (t *Testbed) settle(ctx context.Context) error {
	next := t.state.clone()
	for _, name := range t.config.Zones {
		next.dark[name] = t.zones[name].dark
		next.vip[name] = t.backends(name)
	}
	if err := t.network.apply(ctx, next); err != nil {
		return fmt.Errorf("change the network: %w", err)
	}
	t.state = next
	return nil
}

// backends says where a zone's virtual IP leads. A zone that is cut off hears
// of no changes and keeps what it knew.
func (t *Testbed) backends(zone string) []string {
	if chosen := t.steer[zone]; len(chosen) > 0 {
		return chosen
	}
	if known, ok := t.frozenVIP[zone]; ok {
		return known
	}
	return t.endpoints()
}

// endpoints are the zones whose apiservers' endpoint leases have not run out.
func (t *Testbed) endpoints() []string {
	var alive []string
	for _, name := range t.config.Zones {
		if !t.zones[name].expired {
			alive = append(alive, name)
		}
	}
	return alive
}

// expireLater lets a zone's endpoint lease run out in the background, unless
// the zone changes before. The caller holds mu.
func (t *Testbed) expireLater(z *zone) {
	epoch := z.epoch
	t.background.Go(func() {
		timer := time.NewTimer(EndpointLease)
		defer timer.Stop()
		select {
		case <-timer.C:
			t.expire(z, epoch)
		case <-t.ctx.Done():
		}
	})
}

// expire takes a zone out of the virtual IPs if it is still in the same epoch,
// and the controllers to another, for their own lease has run out too.
func (t *Testbed) expire(z *zone, epoch int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || z.epoch != epoch {
		return
	}
	z.expired = true
	if err := t.settle(t.ctx); err != nil {
		t.say("take zone %s out of the virtual IPs: %v", z.name, err)
		return
	}
	t.say("zone %s: its endpoint lease has run out", z.name)
	if err := t.moveControllers(t.ctx); err != nil {
		t.say("move the controllers away from zone %s: %v", z.name, err)
	}
}
