// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"sync"
)

// valve lets the traffic of one direction pass or holds it up. It is safe for
// concurrent use.
type valve struct {
	mu   sync.Mutex
	flow chan struct{} // closed while the valve is open
}

// newValve returns an open valve.
func newValve() *valve {
	v := &valve{flow: make(chan struct{})}
	close(v.flow)
	return v
}

// set opens or shuts the valve.
func (v *valve) set(open bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	select {
	case <-v.flow:
		if !open {
			v.flow = make(chan struct{})
		}
	default:
		if open {
			close(v.flow)
		}
	}
}

// opened returns a channel that is closed while, or as soon as, the valve is
// open.
func (v *valve) opened() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.flow
}

// wait returns nil when the valve is open, or the error of ctx.
func (v *valve) wait(ctx context.Context) error {
	select {
	case <-v.opened():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
