// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"sync"
)

// transcript takes a program's output and keeps all of its lines. It is an
// io.Writer that never blocks, and safe for concurrent use.
type transcript struct {
	mu      sync.Mutex
	partial []byte
	lines   []string
}

// Write takes some output. It never fails.
func (t *transcript) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.partial = append(t.partial, data...)
	for {
		line, rest, found := bytes.Cut(t.partial, []byte("\n"))
		if !found {
			return len(data), nil
		}
		t.lines = append(t.lines, string(line))
		t.partial = rest
	}
}

// all returns the lines so far.
func (t *transcript) all() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lines[:len(t.lines):len(t.lines)]
}
