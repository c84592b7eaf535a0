// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"time"
)

// serviceIP is the virtual IP of the API in every zone.
const serviceIP = "10.96.0.1"

// closeTimeout bounds how long taking the network down may take.
const closeTimeout = 30 * time.Second

// namespaces is the network of Linux network namespaces, one per zone, each
// with a veth to the host, which routes between them.
type namespaces struct {
	slot  *slot
	zones []string
	last  state // what was applied last
}

// NamespacesPossible returns nil if this process can make network namespaces,
// or else why it cannot.
func NamespacesPossible() error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root: run as root, or use Links")
	}
	for _, tool := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("network namespaces need the program %s (packages iproute2 and nftables): %w", tool, err)
		}
	}
	return nil
}

// newNamespaces makes the namespaces and their links, all up.
func newNamespaces(ctx context.Context, zones []string) (fabric, error) {
	taken, err := takeSlot(ctx)
	if err != nil {
		return nil, err
	}
	n := &namespaces{slot: taken, zones: zones, last: state{}}
	for _, zone := range zones {
		if err := n.addZone(ctx, zone); err != nil {
			return nil, errors.Join(fmt.Errorf("make the network of zone %s: %w", zone, err), n.close())
		}
	}
	return n, nil
}

// addZone makes one zone's namespace and connects it to the host.
func (n *namespaces) addZone(ctx context.Context, zone string) error {
	ns, veth, subnet := n.namespace(zone), n.slot.veth(n.index(zone)), n.subnet(zone)
	steps := [][]string{
		{"netns", "add", ns},
		{"link", "add", veth, "type", "veth", "peer", "name", "eth0", "netns", ns},
		{"addr", "add", subnet + ".1/24", "dev", veth},
		{"link", "set", veth, "up"},
		{"-n", ns, "addr", "add", n.address(zone) + "/24", "dev", "eth0"},
		{"-n", ns, "link", "set", "lo", "up"},
	}
	for _, step := range steps {
		if err := run(ctx, "", "ip", step...); err != nil {
			return err
		}
	}
	// Forwarding is switched on for these links only, so that no setting of the
	// host needs to be changed back.
	file := "/proc/sys/net/ipv4/conf/" + veth + "/forwarding"
	if err := os.WriteFile(file, []byte("1"), 0); err != nil {
		return fmt.Errorf("switch forwarding on: %w", err)
	}
	return n.power(ctx, zone, true)
}

// power takes the zone's link up or down on the zone's side. The route on the
// host's side stays, so the host does not answer for the zone.
func (n *namespaces) power(ctx context.Context, zone string, on bool) error {
	ns := n.namespace(zone)
	if !on {
		return run(ctx, "", "ip", "-n", ns, "link", "set", "eth0", "down")
	}
	if err := run(ctx, "", "ip", "-n", ns, "link", "set", "eth0", "up"); err != nil {
		return err
	}
	return run(ctx, "", "ip", "-n", ns, "route", "replace", "default", "via", n.subnet(zone)+".1")
}

func (n *namespaces) index(zone string) int        { return slices.Index(n.zones, zone) }
func (n *namespaces) namespace(zone string) string { return n.slot.namespace(zone) }
func (n *namespaces) subnet(zone string) string    { return n.slot.subnet(n.index(zone)) }
func (n *namespaces) address(zone string) string   { return n.subnet(zone) + ".2" }

func (n *namespaces) site(zone string) site {
	ip := n.address(zone)
	return site{etcd: ip + ":2379", peer: ip + ":2380", peerURL: "https://" + ip + ":2380", apiserver: ip + ":6443"}
}

func (n *namespaces) observe(zone string) string { return "https://" + n.site(zone).apiserver }
func (n *namespaces) vip(string) string          { return "https://" + serviceIP + ":443" }
func (n *namespaces) environ(string) []string    { return nil }

func (n *namespaces) hosts() []net.IP {
	hosts := []net.IP{net.ParseIP(serviceIP)}
	for _, zone := range n.zones {
		hosts = append(hosts, net.ParseIP(n.address(zone)))
	}
	return hosts
}

// inside relies on ip netns exec becoming the program: the process ID is the
// same.
func (n *namespaces) inside(zone string, argv []string) []string {
	return append([]string{"ip", "netns", "exec", n.namespace(zone)}, argv...)
}

// apply drops first, then takes links down, so that no last packet gets out. In
// the other direction, links come up before anything is let through.
func (n *namespaces) apply(ctx context.Context, s state) error {
	for _, zone := range n.zones {
		if n.last.dark[zone] && !s.dark[zone] {
			if err := n.power(ctx, zone, true); err != nil {
				return fmt.Errorf("take the link of zone %s up: %w", zone, err)
			}
		}
	}
	if err := run(ctx, n.filter(s), "nft", "-f", "-"); err != nil {
		return fmt.Errorf("set the packet filter between the zones: %w", err)
	}
	for _, zone := range n.zones {
		if err := n.applyZone(ctx, zone, s); err != nil {
			return err
		}
	}
	n.last = s.clone()
	return nil
}

// applyZone takes a zone's link down if it has no power, and sets its VIP.
func (n *namespaces) applyZone(ctx context.Context, zone string, s state) error {
	if s.dark[zone] && !n.last.dark[zone] {
		if err := n.power(ctx, zone, false); err != nil {
			return fmt.Errorf("take the link of zone %s down: %w", zone, err)
		}
	}
	if slices.Equal(s.vip[zone], n.last.vip[zone]) && slices.Equal(s.silenced[zone], n.last.silenced[zone]) {
		return nil
	}
	rules := n.service(s.vip[zone]) + n.silence(s.silenced[zone])
	if err := run(ctx, rules, "ip", "netns", "exec", n.namespace(zone), "nft", "-f", "-"); err != nil {
		return fmt.Errorf("set the virtual IP of zone %s: %w", zone, err)
	}
	return nil
}

// close removes namespaces, links and filter, and gives the slot back.
func (n *namespaces) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return errors.Join(n.slot.clear(ctx), n.slot.release())
}
