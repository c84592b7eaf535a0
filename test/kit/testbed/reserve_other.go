// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package testbed

import (
	"fmt"
	"net"
)

// reservation names a port that was free a moment ago. This system cannot hold
// it for another program.
type reservation struct {
	addr string
	held bool
}

// reserve finds a free port.
func reserve() (*reservation, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("find a free port: %w", err)
	}
	return &reservation{addr: listener.Addr().String()}, listener.Close()
}

// release does nothing: nothing is held.
func (r *reservation) release() error { return nil }
