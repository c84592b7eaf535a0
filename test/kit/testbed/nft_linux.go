// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// filter is the host's nftables table for a state, replaced as a whole. It
// drops packets that the host forwards between two partitioned zones, and all
// packets to and from a zone without power. Dropping comes before routing,
// where the host could still answer that it knows no route.
func (n *namespaces) filter(s state) string {
	table := n.slot.table()
	var out strings.Builder
	fmt.Fprintf(&out, "add table ip %[1]s\ndelete table ip %[1]s\nadd table ip %[1]s\n", table)
	for _, hook := range []string{"prerouting", "forward", "output"} {
		fmt.Fprintf(&out, "add chain ip %s %s { type filter hook %s priority -300; policy accept; }\n", table, hook, hook)
	}
	for _, zone := range slices.Sorted(maps.Keys(s.dark)) {
		if !s.dark[zone] {
			continue
		}
		for _, rule := range []string{"prerouting ip saddr", "prerouting ip daddr", "output ip daddr"} {
			fmt.Fprintf(&out, "add rule ip %s %s %s.0/24 drop\n", table, rule, n.subnet(zone))
		}
	}
	for p, cut := range s.severed {
		if cut {
			fmt.Fprintf(&out, "add rule ip %s forward ip saddr %s.0/24 ip daddr %s.0/24 drop\n", table, n.subnet(p.from), n.subnet(p.to))
		}
	}
	return out.String()
}

// vipMatch is what goes to a virtual IP.
const vipMatch = "ip daddr " + serviceIP + " tcp dport 443"

// service is the virtual IP's nftables rules for these backends, in the style
// of kube-proxy: the chain is emptied and filled in one transaction, and
// connections that are already tracked stay where they are. Without backends it
// drops.
func (n *namespaces) service(backends []string) string {
	var out strings.Builder
	out.WriteString("add table ip vip\n")
	out.WriteString("add chain ip vip out { type nat hook output priority -100; policy accept; }\n")
	out.WriteString("flush chain ip vip out\n")
	for i, zone := range backends {
		choose := ""
		if rest := len(backends) - i; rest > 1 {
			choose = fmt.Sprintf(" numgen random mod %d 0", rest)
		}
		fmt.Fprintf(&out, "add rule ip vip out %s%s dnat to %s\n", vipMatch, choose, n.site(zone).apiserver)
	}
	if len(backends) == 0 {
		fmt.Fprintf(&out, "add rule ip vip out %s drop\n", vipMatch)
	}
	return out.String()
}

// silence is the nftables rules that mark each new connection through the
// virtual IP with the number of silences before it, plus one, and drop the
// packets of connections that existed at a silence: before the destination of a
// request is rewritten, and before an answer is rewritten to come from the
// virtual IP.
func (n *namespaces) silence(past []Silence) string {
	var out strings.Builder
	for _, hook := range []string{"output", "prerouting"} {
		fmt.Fprintf(&out, "add chain ip vip %[1]s { type filter hook %[1]s priority -150; policy accept; }\nflush chain ip vip %[1]s\n", hook)
	}
	for i, what := range past {
		fmt.Fprintf(&out, "add rule ip vip prerouting ct mark %d ct direction reply counter drop\n", i+1)
		if what == BothWays {
			fmt.Fprintf(&out, "add rule ip vip output %s ct mark %d counter drop\n", vipMatch, i+1)
		}
	}
	fmt.Fprintf(&out, "add rule ip vip output %s ct state new ct mark set %d\n", vipMatch, len(past)+1)
	return out.String()
}

// counted is a counter of nftables.
var counted = regexp.MustCompile(`counter packets (\d+)`)

func (n *namespaces) silenced(ctx context.Context, zone string) (int, error) {
	rules, err := output(ctx, "", "ip", "netns", "exec", n.namespace(zone), "nft", "list", "table", "ip", "vip")
	if err != nil {
		return 0, fmt.Errorf("count what was silenced in zone %s: %w", zone, err)
	}
	sum := 0
	for _, found := range counted.FindAllStringSubmatch(rules, -1) {
		packets, err := strconv.Atoi(found[1])
		if err != nil {
			return 0, fmt.Errorf("count what was silenced in zone %s: %w", zone, err)
		}
		sum += packets
	}
	return sum, nil
}

// run runs a system command with some input, and returns what it printed if it
// fails.
func run(ctx context.Context, input, name string, args ...string) error {
	_, err := output(ctx, input, name, args...)
	return err
}

// output is run for a command whose output is needed.
func output(ctx context.Context, input, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("run %s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
