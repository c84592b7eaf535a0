// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package sharedport

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

var config = net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	return errors.Join(err, failed)
}}
