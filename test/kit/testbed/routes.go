// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"fmt"

	"github.com/zonelect/zonelect/internal/sleep"
)

// routes decide where the virtual IPs lead, and keep the network and the
// controllers in step with the state of the zones.
type routes struct {
	*shared
	controllers *controllers

	steer     map[string][]string // what SteerVIP set
	frozenVIP map[string][]string // what cut-off zones last knew
}

// settle brings the network into the state that the testbed is in. The caller
// holds mu.
func (r *routes) settle(ctx context.Context) error {
	next := r.state.clone()
	for _, name := range r.config.Zones {
		next.dark[name] = r.zones[name].dark
		next.vip[name] = r.backends(name)
	}
	if err := r.fabric.apply(ctx, next); err != nil {
		return fmt.Errorf("change the network: %w", err)
	}
	r.state = next
	return nil
}

// backends says where a zone's virtual IP leads. A zone that is cut off notices
// no changes and keeps what it knew.
func (r *routes) backends(zone string) []string {
	if chosen := r.steer[zone]; len(chosen) > 0 {
		return chosen
	}
	if known, ok := r.frozenVIP[zone]; ok {
		return known
	}
	return r.endpoints()
}

// endpoints are the zones whose apiservers' endpoint leases have not run out.
func (r *routes) endpoints() []string {
	var alive []string
	for _, name := range r.config.Zones {
		if !r.zones[name].expired {
			alive = append(alive, name)
		}
	}
	return alive
}

// expireLater lets a zone's endpoint lease run out in the background, unless
// the zone changes first. The caller holds mu.
func (r *routes) expireLater(z *zone) {
	epoch := z.epoch
	r.background.Go(func() {
		if sleep.For(r.ctx, EndpointLease) == nil {
			r.expire(z, epoch)
		}
	})
}

// expire takes a zone out of the virtual IPs if it is still in the same epoch.
// It also moves the controllers to another zone, because their own lease has
// run out too.
func (r *routes) expire(z *zone, epoch int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || z.epoch != epoch {
		return
	}
	z.expired = true
	if err := r.settle(r.ctx); err != nil {
		r.say("take zone %s out of the virtual IPs: %v", z.name, err)
		return
	}
	r.say("zone %s: its endpoint lease has run out", z.name)
	if err := r.controllers.move(r.ctx); err != nil {
		r.say("move the controllers away from zone %s: %v", z.name, err)
	}
}
