// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sharedport listens on ports that a testbed holds.
package sharedport

import (
	"context"
	"fmt"
	"net"
)

// Listen listens on a TCP address with SO_REUSEPORT, where the system has it.
func Listen(address string) (net.Listener, error) {
	listener, err := config.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on a port that others may hold: %w", err)
	}
	return listener, nil
}
