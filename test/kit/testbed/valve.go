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

// wait returns nil when the valve is open, or the error of ctx.
func (v *valve) wait(ctx context.Context) error {
	v.mu.Lock()
	flow := v.flow
	v.mu.Unlock()
	select {
	case <-flow:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
