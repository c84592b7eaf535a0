// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"maps"
	"net"
	"slices"
)

// host is the place outside of all zones, where the test process runs.
const host = ""

// pair is a direction of traffic: from a zone, or the host, to a zone.
type pair struct{ from, to string }

// fabric carries the traffic between the zones and the host. Its caller names the
// state it should be in, and it works out how to get there. Calls come one at a
// time.
type fabric interface {
	// site says where a zone's parts listen, and how others name them.
	site(zone string) site
	// observe is the URL of a zone's apiserver for the host.
	observe(zone string) string
	// vip is the URL of the API for programs in a zone.
	vip(zone string) string
	// hosts are the addresses that the URLs above use, besides 127.0.0.1, for the
	// serving certificate.
	hosts() []net.IP
	// inside turns a command line into one that runs in the zone, with the
	// same process ID.
	inside(zone string, argv []string) []string
	// environ is what the zone's etcd needs in its environment.
	environ(zone string) []string
	// apply brings the network into a state. When it returns, nothing passes
	// where the state says so. Repeating it is harmless.
	apply(ctx context.Context, s state) error
	// silenced counts the packets of a zone that were lost by silence, since the
	// silence or the VIP changed last.
	silenced(ctx context.Context, zone string) (int, error)
	// close takes the network down and waits until nothing is left of it.
	close() error
}

// site is where the control plane of one zone listens (HOST:PORT each).
type site struct {
	etcd      string // for clients, plain HTTP
	peer      string // for etcd's other members, TLS
	peerURL   string // the member's URL for the other members
	apiserver string // TLS
	shared    bool   // the ports are held with SO_REUSEPORT until close
}

// state is what the network should be like. It is a value: it is cloned before
// it is changed.
type state struct {
	dark    map[string]bool     // zones without power
	severed map[pair]bool       // partitions between zones, each direction on its own
	vip     map[string][]string // for each zone, the zones whose apiservers its VIP picks from
	// silenced says how the connections through each zone's VIP are silenced:
	// the first entry covers those that existed at the first silence, the
	// second those since then that existed at the second, and so on.
	silenced map[string][]Silence
}

// newState returns the state in which everything passes and no VIP leads
// anywhere.
func newState() state {
	return state{
		dark: map[string]bool{}, severed: map[pair]bool{}, vip: map[string][]string{},
		silenced: map[string][]Silence{},
	}
}

// clone returns a copy that can be changed on its own.
func (s state) clone() state {
	c := newState()
	maps.Copy(c.dark, s.dark)
	maps.Copy(c.severed, s.severed)
	for zone, backends := range s.vip {
		c.vip[zone] = slices.Clone(backends)
	}
	for zone, all := range s.silenced {
		c.silenced[zone] = slices.Clone(all)
	}
	return c
}

// passes reports whether traffic between two places gets through.
func (s state) passes(p pair) bool {
	return !s.dark[p.from] && !s.dark[p.to] && !s.severed[p]
}
