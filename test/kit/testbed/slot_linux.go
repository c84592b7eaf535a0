// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
)

// How many testbeds fit a host at the same time, and where their subnets are:
// testbed n has 10.(firstSubnet+n).0.0/16.
const (
	slots       = 24
	firstSubnet = 99
)

// namespaceDir is where iproute2 keeps the names of namespaces.
const namespaceDir = "/run/netns"

// slot is a testbed's place among those on this host: it makes the names and
// the subnet unique. An abstract socket holds it, which the kernel releases
// when the process dies, however it dies. So if a slot can be taken, whatever
// is left under it is nobody's.
type slot struct {
	number int
	lock   net.Listener
}

func (s *slot) prefix() string               { return fmt.Sprintf("zl%d-", s.number) }
func (s *slot) namespace(zone string) string { return s.prefix() + zone }
func (s *slot) veth(i int) string            { return fmt.Sprintf("%sv%d", s.prefix(), i) }
func (s *slot) table() string                { return fmt.Sprintf("zonelect_%d", s.number) }
func (s *slot) network() string              { return fmt.Sprintf("10.%d.0.0/16", firstSubnet+s.number) }
func (s *slot) subnet(i int) string          { return fmt.Sprintf("10.%d.%d", firstSubnet+s.number, i+1) }

// takeSlot takes the first free slot whose subnet is unused, and clears what
// dead testbeds have left in this and other slots.
func takeSlot(ctx context.Context) (*slot, error) {
	var taken *slot
	for number := range slots {
		candidate, err := lockSlot(number)
		if err != nil {
			continue // held by a running testbed
		}
		if err := candidate.clear(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("clear what a dead testbed has left: %w", err), candidate.release(), taken.release())
		}
		if taken == nil && candidate.unused(ctx) {
			taken = candidate
			continue
		}
		if err := candidate.release(); err != nil {
			return nil, errors.Join(err, taken.release())
		}
	}
	if taken == nil {
		return nil, fmt.Errorf("no room for a testbed: 10.%d.0.0/16 to 10.%d.0.0/16 are all in use; stop other testbeds, or use Links",
			firstSubnet, firstSubnet+slots-1)
	}
	return taken, nil
}

// lockSlot takes the slot if it is free.
func lockSlot(number int) (*slot, error) {
	lock, err := net.Listen("unix", fmt.Sprintf("@zonelect-testbed-%d", number))
	if err != nil {
		return nil, fmt.Errorf("take slot %d: %w", number, err)
	}
	return &slot{number: number, lock: lock}, nil
}

// unused reports whether no route of the host leads into the slot's subnet.
func (s *slot) unused(ctx context.Context) bool {
	routes, err := output(ctx, "", "ip", "-4", "route", "show", "table", "all", "root", s.network())
	return err == nil && strings.TrimSpace(routes) == ""
}

// clear removes the table and all namespaces that have the slot's names; the
// links go with their namespaces. There is no table without a namespace, because the
// table is made later and removed earlier.
func (s *slot) clear(ctx context.Context) error {
	found, err := filepath.Glob(filepath.Join(namespaceDir, s.prefix()+"*"))
	if err != nil || len(found) == 0 {
		return err
	}
	table := fmt.Sprintf("add table ip %[1]s\ndelete table ip %[1]s\n", s.table())
	if err := run(ctx, table, "nft", "-f", "-"); err != nil {
		return err
	}
	var failed error
	for _, file := range found {
		failed = errors.Join(failed, s.removeNamespace(ctx, filepath.Base(file)))
	}
	return failed
}

// removeNamespace deletes a namespace. It deletes its link first: the kernel
// dismantles a namespace only some time later.
func (s *slot) removeNamespace(ctx context.Context, name string) error {
	// The link may be missing, if the testbed died while it was made.
	_ = run(ctx, "", "ip", "-n", name, "link", "delete", "eth0")
	return run(ctx, "", "ip", "netns", "delete", name)
}

// release frees the slot. A nil slot has nothing to free.
func (s *slot) release() error {
	if s == nil {
		return nil
	}
	if err := s.lock.Close(); err != nil {
		return fmt.Errorf("give slot %d back: %w", s.number, err)
	}
	return nil
}
