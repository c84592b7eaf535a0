// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"context"
	"sync"
	"time"
)

// Line is a line of a program's standard output.
type Line struct {
	// Time is when the testbed read the line's end.
	Time time.Time
	// Text is the line without its end.
	Text string
}

// transcript takes a program's output and keeps all of its lines. It is an
// io.Writer that never blocks, and safe for concurrent use.
type transcript struct {
	mu      sync.Mutex
	partial []byte
	lines   []Line
	ended   bool
	news    chan struct{} // closed and replaced at each change
}

// newTranscript returns an empty transcript.
func newTranscript() *transcript {
	return &transcript{news: make(chan struct{})}
}

// Write takes some output. It never fails.
func (t *transcript) Write(data []byte) (int, error) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.partial = append(t.partial, data...)
	for {
		line, rest, found := bytes.Cut(t.partial, []byte("\n"))
		if !found {
			break
		}
		t.lines = append(t.lines, Line{Time: now, Text: string(line)})
		t.partial = rest
	}
	t.tell()
	return len(data), nil
}

// end says that nothing more will come.
func (t *transcript) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.partial) > 0 {
		t.lines = append(t.lines, Line{Time: time.Now(), Text: string(t.partial)})
		t.partial = nil
	}
	t.ended = true
	t.tell()
}

// tell wakes all that wait for news. The caller holds mu.
func (t *transcript) tell() {
	close(t.news)
	t.news = make(chan struct{})
}

// from returns the lines from number i on, whether they are the last ones, and
// a channel that is closed when there is more.
func (t *transcript) from(i int) (lines []Line, ended bool, news <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lines[i:len(t.lines):len(t.lines)], t.ended, t.news
}

// follow sends all lines, past and future, until the program's output ends or
// one of the two contexts does; then it closes out.
func (t *transcript) follow(ctx, bed context.Context, out chan<- Line) {
	defer close(out)
	for next := 0; ; {
		lines, ended, news := t.from(next)
		for _, line := range lines {
			select {
			case out <- line:
				next++
			case <-ctx.Done():
				return
			case <-bed.Done():
				return
			}
		}
		if ended {
			return
		}
		select {
		case <-news:
		case <-ctx.Done():
			return
		case <-bed.Done():
			return
		}
	}
}
