// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"sync"
	"time"

	"github.com/zonelect/zonelect/test/kit/slow"
)

func constant(d time.Duration) slow.Answers { return slow.Answers{Name: d.String(), Least: d, Most: d} }

// curve lists the network conditions that are measured.
func curve() []slow.Answers {
	var all []slow.Answers
	for _, seconds := range []float64{0.1, 0.8, 1, 1.5, 2.1, 3.5, 4.5, 6, 8} {
		all = append(all, constant(time.Duration(seconds*float64(time.Second))))
	}
	return append(all,
		slow.Answers{Name: "0.1-5s", Least: 100 * time.Millisecond, Most: 5 * time.Second},
		slow.Answers{Name: "0.1s, 20% lost", Least: 100 * time.Millisecond, Most: 100 * time.Millisecond, Lost: 0.2},
		slow.Answers{Name: "1s, 20% lost", Least: time.Second, Most: time.Second, Lost: 0.2},
	)
}

// counts are the requests and connections of an elector.
type counts struct {
	mu                    sync.Mutex
	requests, connections int
}

func (c *counts) add(requests, connections int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests += requests
	c.connections += connections
}

func (c *counts) read() (requests, connections int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests, c.connections
}
