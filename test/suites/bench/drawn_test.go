// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zonelect/zonelect/internal/timeline"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

// mostDrawn is how many of a kind's contests a page shows.
const mostDrawn = 3

// page draws who led in the contests of a test. Its methods are safe for concurrent use.
type page struct {
	mu      sync.Mutex
	history timeline.History
	drawn   map[string]int  // how many contests of each kind
	lanes   map[string]bool // those that are drawn
}

var pages sync.Map // of *testing.T

// pageOf returns the page of a test, which is build/bench/TEST.html when the test has ended.
func pageOf(t *testing.T) *page {
	t.Helper()
	p, had := pages.LoadOrStore(t, newPage("Bench: "+t.Name()))
	if !had {
		t.Cleanup(func() {
			root, err := testbed.Root()
			must(t, err)
			must(t, p.(*page).write(filepath.Join(root, "build", "bench", t.Name()+".html")))
		})
	}
	return p.(*page)
}

func newPage(title string) *page {
	return &page{history: timeline.History{Title: title}, drawn: map[string]int{}, lanes: map[string]bool{}}
}

func (p *page) write(file string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var text bytes.Buffer
	if err := timeline.Render(&text, p.history); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return err
	}
	return os.WriteFile(file, text.Bytes(), 0o600)
}

// enter adds a contest with its seats, unless there are enough of its kind: those whose locks
// have the same name without a number.
func (p *page) enter(lock string, seats int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kind := strings.TrimRight(lock, "-0123456789")
	if p.drawn[kind]++; p.drawn[kind] > mostDrawn {
		return
	}
	for i := range seats {
		lane := laneOf(lock, i)
		p.lanes[lane] = true
		p.history.Lanes = append(p.history.Lanes, timeline.Lane{ID: lane, Name: fmt.Sprint("seat ", i+1), Zone: "za", Group: lock})
	}
}

// laneOf names the lane of a seat, in which one candidate follows another.
func laneOf(lock string, seat int) string { return fmt.Sprint(lock, "/", seat) }

// led adds a term, and why it ended.
func (p *page) led(lane string, from, to time.Time, ended string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lanes[lane] {
		p.history.Terms = append(p.history.Terms, timeline.Term{Lane: lane, From: from, To: to, Ended: ended})
	}
}

// killed adds a kill, with the takeover that followed: the lease ended at expiry.
func (p *page) killed(lane string, at, lastSeen, expiry time.Time, nextLane string, next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.lanes[lane] {
		return
	}
	h := &p.history
	h.Faults = append(h.Faults, timeline.Fault{Kind: timeline.Cut, Lane: lane, From: at, To: next, Text: "nothing that it sends arrives"})
	h.Expiries = append(h.Expiries, timeline.Expiry{Lane: lane, At: expiry})
	phases := []timeline.Phase{{Name: timeline.Silence, From: lastSeen, To: earlier(expiry, next)}}
	if next.After(expiry) {
		phases = append(phases, timeline.Phase{Name: timeline.Idle, From: expiry, To: next})
	}
	h.Failovers = append(h.Failovers, timeline.Failover{Lane: nextLane, Previous: lane, Cause: "expired", Phases: phases})
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func TestAPageShowsTheFirstContestsOfAKind(t *testing.T) {
	p, at := newPage("A page"), func(s float64) time.Time {
		return time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC).Add(time.Duration(s * float64(time.Second)))
	}
	for i := range 2 * mostDrawn {
		lock := fmt.Sprint("ours-", i)
		p.enter(lock, 3)
		p.led(laneOf(lock, 0), at(1), at(12), "cut off")
		p.killed(laneOf(lock, 0), at(2), at(2), at(17), laneOf(lock, 2), at(17.01))
		p.led(laneOf(lock, 2), at(17.01), at(20), "stopped")
		p.killed(laneOf(lock, 2), at(18), at(19), at(34), laneOf(lock, 1), at(33.9)) // it led too soon
	}
	h := p.history
	if len(h.Lanes) != 3*mostDrawn || len(h.Terms) != 2*mostDrawn || len(h.Failovers) != 2*mostDrawn || len(h.Expiries) != 2*mostDrawn {
		t.Errorf("the page has %d lanes, %d terms, %d failovers, %d expiries", len(h.Lanes), len(h.Terms), len(h.Failovers), len(h.Expiries))
	}
	file := filepath.Join(t.TempDir(), "new", "page.html")
	must(t, p.write(file))
	if text, err := os.ReadFile(file); err != nil || !bytes.Contains(text, []byte("ours-2")) || bytes.Contains(text, []byte("ours-3")) {
		t.Errorf("it shows other contests than the first three: %v", err)
	}
}
