// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"golang.org/x/sys/unix"
)

// reservation holds a port on loopback for a program that listens on it with
// SO_REUSEPORT, so that no other program gets it, even between two starts.
type reservation struct {
	addr string
	fd   int
}

// reserve binds a free port without listening on it.
func reserve() (*reservation, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket to reserve a port: %w", err)
	}
	unix.CloseOnExec(fd)
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1),
		unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}),
	)
	name, unnamed := unix.Getsockname(fd)
	if err = errors.Join(err, unnamed); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	port := name.(*unix.SockaddrInet4).Port // as it is of AF_INET
	return &reservation{addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), fd: fd}, nil
}

// release releases the port.
func (r *reservation) release() error {
	if err := unix.Close(r.fd); err != nil {
		return fmt.Errorf("release %s: %w", r.addr, err)
	}
	return nil
}
