// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"errors"
	"fmt"
	"net"
	"slices"
)

// Network is the network between the zones: partitions, silence, and where
// the virtual IPs lead.
type Network struct{ *routes }

// PartitionOneWay silently drops the traffic from one zone to another; in the
// other direction everything passes. So no new connection opens between the
// two, and on an established one only one side hears the other.
func (n *Network) PartitionOneWay(from, to string) error {
	return n.sever(pair{from, to})
}

// PartitionFromAll silently cuts the traffic between a zone and all others, both
// ways, on established connections too. The test process still reaches all. The
// others' virtual IPs drop the zone after EndpointLease. Its own virtual IP sees no
// change until Heal.
func (n *Network) PartitionFromAll(zone string) error {
	var ways []pair
	for _, other := range n.config.Zones {
		if other != zone {
			ways = append(ways, pair{zone, other}, pair{other, zone})
		}
	}
	return n.sever(ways...)
}

// sever cuts traffic between zones.
func (n *Network) sever(ways ...pair) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, way := range ways {
		for _, name := range []string{way.from, way.to} {
			if _, err := n.zone(name); err != nil {
				return fmt.Errorf("partition zone %s from %s: %w", way.from, way.to, err)
			}
		}
	}
	before := n.cutOffZones()
	for _, way := range ways {
		n.state.severed[way] = true
	}
	for _, name := range n.cutOffZones() {
		if !slices.Contains(before, name) {
			n.frozenVIP[name] = n.endpoints()
			n.zones[name].epoch++
			n.expireLater(n.zones[name])
		}
	}
	if err := n.settle(n.ctx); err != nil {
		return err
	}
	return n.controllers.move(n.ctx)
}

// Heal ends all partitions. Connections that have survived them go on.
func (n *Network) Heal() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return errors.New("heal partitions: the testbed is closed")
	}
	for _, name := range n.cutOffZones() {
		if z := n.zones[name]; n.well(z) {
			z.epoch++
			z.expired = false
		}
	}
	clear(n.frozenVIP)
	clear(n.state.severed)
	if err := n.settle(n.ctx); err != nil {
		return err
	}
	return n.controllers.move(n.ctx)
}

// Kind is what carries the traffic, never Auto.
func (n *Network) Kind() NetworkKind { return n.config.Network }

// Address is the IP address at which programs in all zones reach what listens in this one.
func (n *Network) Address(zone string) (string, error) {
	if _, err := n.zone(zone); err != nil {
		return "", fmt.Errorf("find the address of zone %s: %w", zone, err)
	}
	address, _, err := net.SplitHostPort(n.fabric.site(zone).etcd)
	if err != nil {
		return "", fmt.Errorf("find the address of zone %s: %w", zone, err)
	}
	return address, nil
}

// SteerVIP leads new connections from a zone through its virtual IP to the
// apiservers of these zones only, dead or not. With no zones named, it goes
// back to normal. Established connections stay where they are.
func (n *Network) SteerVIP(fromZone string, backends ...string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range append([]string{fromZone}, backends...) {
		if _, err := n.zone(name); err != nil {
			return fmt.Errorf("steer the virtual IP of zone %s: %w", fromZone, err)
		}
	}
	n.steer[fromZone] = slices.Clone(backends)
	return n.settle(n.ctx)
}

// Backends returns the zones whose apiservers the virtual IP of a zone picks
// from for new connections.
func (n *Network) Backends(zone string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.state.vip[zone])
}
