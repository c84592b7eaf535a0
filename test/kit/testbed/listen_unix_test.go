// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package testbed

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// listenConfig listens on ports that the testbed holds.
var listenConfig = net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	if err != nil {
		return err
	}
	return failed
}}
