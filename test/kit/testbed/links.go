// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// links is the network of TCP relays on loopback.
type links struct {
	exchange *exchange
	zones    []string
	ports    []*reservation
	sites    map[string]site
	outside  map[string]string // relays from the host to the apiservers
	vips     map[string]string // each zone's virtual IP
	proxies  map[string]string // each zone's way to the other etcd members

	mu       sync.Mutex
	backends map[string][]string // for each zone, where its VIP leads
}

// newLinks makes the relays for these zones, all open.
func newLinks(zones []string) (*links, error) {
	l := &links{
		exchange: newExchange(), zones: zones,
		sites: map[string]site{}, outside: map[string]string{},
		vips: map[string]string{}, proxies: map[string]string{}, backends: map[string][]string{},
	}
	for _, zone := range zones {
		if err := l.addSite(zone); err != nil {
			return nil, errors.Join(err, l.close())
		}
	}
	for _, zone := range zones {
		if err := l.addRelays(zone); err != nil {
			return nil, errors.Join(err, l.close())
		}
	}
	return l, nil
}

// addSite reserves the ports of a zone's control plane.
func (l *links) addSite(zone string) error {
	var addrs [3]string
	for i := range addrs {
		port, err := reserve()
		if err != nil {
			return fmt.Errorf("reserve ports for zone %s: %w", zone, err)
		}
		l.ports = append(l.ports, port)
		addrs[i] = port.addr
	}
	l.sites[zone] = site{
		etcd: addrs[0], peer: addrs[1], apiserver: addrs[2], shared: true,
		peerURL: "https://" + zone + "." + peerDomain + ":2380",
	}
	return nil
}

// addRelays makes all relays that lead out of a zone, and the one from the host.
func (l *links) addRelays(zone string) error {
	var err error
	peers := map[string]string{}
	for _, to := range l.zones {
		peers[to] = l.sites[to].peer
	}
	if l.outside[zone], err = l.exchange.serve(host, fixed(zone, l.sites[zone].apiserver)); err != nil {
		return err
	}
	if l.vips[zone], err = l.exchange.serve(zone, l.service(zone)); err != nil {
		return err
	}
	l.proxies[zone], err = l.exchange.serve(zone, tunnel(peers))
	return err
}

// fixed is a chooser with one choice.
func fixed(zone, addr string) chooser {
	return func(*net.TCPConn) (target, error) { return target{to: zone, addr: addr}, nil }
}

// service is the chooser of a zone's virtual IP.
func (l *links) service(zone string) chooser {
	return func(*net.TCPConn) (target, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		backends := l.backends[zone]
		if len(backends) == 0 {
			return target{}, fmt.Errorf("the virtual IP of zone %s has no backends", zone)
		}
		to := backends[rand.IntN(len(backends))]
		return target{to: to, addr: l.sites[to].apiserver}, nil
	}
}

func (l *links) site(zone string) site                   { return l.sites[zone] }
func (l *links) observe(zone string) string              { return "https://" + l.outside[zone] }
func (l *links) vip(zone string) string                  { return "https://" + l.vips[zone] }
func (l *links) hosts() []net.IP                         { return nil }
func (l *links) inside(_ string, argv []string) []string { return argv }
func (l *links) environ(zone string) []string {
	return []string{"HTTPS_PROXY=http://" + l.proxies[zone]}
}

func (l *links) silenced(context.Context, string) (int, error) { return 0, nil }

// apply sets the valves, then the backends of the virtual IPs.
func (l *links) apply(_ context.Context, s state) error {
	for _, to := range l.zones {
		for _, from := range append([]string{host}, l.zones...) {
			p := pair{from, to}
			l.exchange.valve(p).set(s.passes(p))
			l.exchange.valve(pair{to, from}).set(s.passes(pair{to, from}))
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.backends = s.clone().vip
	return nil
}

// close ends the relays and gives the ports back.
func (l *links) close() error {
	l.exchange.close()
	var err error
	for _, port := range l.ports {
		err = errors.Join(err, port.release())
	}
	l.ports = nil
	return err
}
