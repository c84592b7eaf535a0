// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sharedport listens on ports that a testbed holds.
package sharedport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// config sets SO_REUSEPORT.
var config = net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	return errors.Join(err, failed)
}}

// Listen listens on a TCP address with SO_REUSEPORT, so that a testbed may hold the port.
func Listen(address string) (net.Listener, error) {
	listener, err := config.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on a port that others may hold: %w", err)
	}
	return listener, nil
}
