// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"errors"
	"fmt"
)

// Silence says what is lost on a connection that has gone silent.
type Silence string

const (
	// BothWays loses everything, as when a firewall has forgotten a connection.
	BothWays Silence = "both ways"
	// Answers loses what the API sends, and nothing that is sent to it: writes
	// land, and the writer does not learn of it; watches get no more events.
	Answers Silence = "answers"
)

// SilenceConnections permanently silences the connections that run through a
// zone's virtual IP at this moment: nothing closes or resets them. Connections
// that are opened later work. It needs Namespaces.
func (n *Network) SilenceConnections(zone string, what Silence) error {
	if n.config.Network != Namespaces {
		return errors.New("silence connections: relays cannot, it needs the network Namespaces")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, err := n.zone(zone); err != nil {
		return fmt.Errorf("silence connections: %w", err)
	}
	n.state.silenced[zone] = append(n.state.silenced[zone], what)
	n.say("zone %s: connections through the virtual IP go silent (%s)", zone, what)
	return n.settle(n.ctx)
}

// Silenced returns how many packets of a zone SilenceConnections has dropped,
// since it or SteerVIP was last called.
func (n *Network) Silenced(zone string) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, err := n.zone(zone); err != nil {
		return 0, fmt.Errorf("count silenced packets: %w", err)
	}
	return n.fabric.silenced(n.ctx, zone)
}
