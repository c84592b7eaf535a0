// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks"
)

// notBack keeps the lines of a log that say that something has not come back.
type notBack struct {
	mu   sync.Mutex
	told []string
}

func (n *notBack) logger() logr.Logger {
	return funcr.New(func(_, line string) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if strings.Contains(line, "not come back") {
			n.told = append(n.told, line)
		}
	}, funcr.Options{})
}

func (n *notBack) lines() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.told
}

// disobeys is a lock with a guardian. A part of it ignores its context once it is set.
type disobeys struct {
	locks.Lock
	part atomic.Value // a string
	let  chan struct{}
}

func (d *disobeys) Capabilities() locks.Capabilities { return locks.Capabilities{Guardian: d} }

func (d *disobeys) at(part string) {
	if d.part.Load() == part {
		<-d.let
	}
}

func (d *disobeys) Read(ctx context.Context) (locks.Snapshot, error) {
	d.at("read")
	return d.Lock.Read(ctx)
}

func (d *disobeys) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	d.at("write")
	return d.Lock.Write(ctx, base, r)
}

func (d *disobeys) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	defer d.at("watch")
	return d.Lock.Watch(ctx, from, events)
}

func (d *disobeys) Attend(ctx context.Context, clear func(locks.Permission)) error {
	clear(granted)
	<-ctx.Done()
	d.at("attend")
	return ctx.Err()
}

func (d *disobeys) Adopt(ctx context.Context, _ locks.Term, clear func(locks.Permission)) error {
	clear(granted)
	<-ctx.Done()
	d.at("adopt")
	return ctx.Err()
}

// TestRunReturnsThoughWhatItWasGivenDoesNotObeyItsContext, and says meanwhile what it waits for.
func TestRunReturnsThoughWhatItWasGivenDoesNotObeyItsContext(t *testing.T) {
	const timeout = 40 * time.Second
	for _, part := range []string{"read", "write", "watch", "attend", "adopt", "peers"} {
		for _, leads := range []bool{false, true} {
			t.Run(part+map[bool]string{true: " of a leader", false: " of a follower"}[leads], func(t *testing.T) {
				scenario(t, func(s *stage) {
					var lock *disobeys
					var log notBack
					change := func(c *election.Config) {
						lock = &disobeys{Lock: c.Lock, let: make(chan struct{})}
						c.Lock, c.Logger, c.Timing.StopTimeout = lock, log.logger(), timeout
						c.WatchPeers = func(ctx context.Context, _ func([]locks.Peer)) { <-ctx.Done(); lock.at("peers") }
					}
					first := "b"
					if leads {
						first = "a"
					}
					other := s.start(first, change)
					other.Leads()
					a := other
					if !leads {
						a = s.start("a", change)
					}
					s.T.Cleanup(func() { close(lock.let) })
					lock.part.Store(part)
					time.Sleep(interval + interval/2) // a renewal is under way
					asked := time.Now()
					a.Stop()
					if err := a.Wait(); err != nil {
						t.Errorf("Run: %v", err)
					}
					if took := time.Since(asked); took > timeout+interval {
						t.Errorf("Run returned after %v", took)
					}
					if took := time.Since(asked); took > 2*interval && len(log.lines()) == 0 {
						t.Errorf("nothing was said in %v", took)
					}
					if !leads {
						return
					}
					if r := s.record(); part == "write" && r.Holder != "a" {
						t.Errorf("the lock was released, and a write may still land: %+v", r)
					}
				})
			})
		}
	}
}

// givesUp is a lock whose writes go on after the end of their context, once it is set.
type givesUp struct {
	locks.Lock
	gives  atomic.Bool
	lands  atomic.Bool // the write lands before that
	over   chan struct{}
	closed atomic.Int32
}

func (g *givesUp) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	if !g.gives.Load() {
		return g.Lock.Write(ctx, base, r)
	}
	if g.lands.Load() {
		_, _ = g.Lock.Write(ctx, base, r)
	}
	<-g.over
	<-ctx.Done()
	return locks.Snapshot{}, ctx.Err()
}

func (g *givesUp) Capabilities() locks.Capabilities {
	return locks.Capabilities{CloseConnections: func() { g.closed.Add(1) }}
}

// TestS6WhatWasGivenUpKeepsTheLockFromBeingReleased until it has come back.
func TestS6WhatWasGivenUpKeepsTheLockFromBeingReleased(t *testing.T) {
	for _, back := range []bool{false, true} {
		scenario(t, func(s *stage) {
			lock := &givesUp{Lock: s.lock, over: make(chan struct{})}
			over := sync.OnceFunc(func() { close(lock.over) })
			s.T.Cleanup(over)
			a := s.start("a", func(c *election.Config) { c.Lock = lock })
			a.Leads()
			lock.gives.Store(true)
			time.Sleep(interval + interval/2) // a renewal is under way
			a.Stop()
			if back {
				over()
			}
			lock.gives.Store(false)
			if err := a.Wait(); err != nil {
				t.Errorf("Run: %v", err)
			}
			if r := s.record(); (r.Holder == "") != back {
				t.Errorf("the write has come back: %v, and the holder is %q", back, r.Holder)
			}
			if closed := lock.closed.Load() > 0; closed == back {
				t.Errorf("the write has come back: %v, and the connections were closed: %v (S12)", back, closed)
			}
		})
	}
}

// TestS6AReleaseThatWasGivenUpIsNotRepeated: it may still land, on what another made of the record.
func TestS6AReleaseThatWasGivenUpIsNotRepeated(t *testing.T) {
	scenario(t, func(s *stage) {
		lock := &givesUp{Lock: s.lock, over: make(chan struct{})}
		s.T.Cleanup(func() { close(lock.over) })
		a := s.start("a", func(c *election.Config) { c.Lock = lock })
		a.Leads()
		lock.gives.Store(true)
		a.Stop() // no renewal is under way
		time.Sleep(interval / 2)
		time.AfterFunc(interval, func() { lock.gives.Store(false) }) // another try would land
		if err := a.Wait(); err != nil {
			t.Errorf("Run: %v", err)
		}
		if r := s.record(); r.Holder != "a" {
			t.Errorf("the holder is %q", r.Holder)
		}
	})
}

// TestS6ACandidateThatEndsReleasesNothingWhileItsAcquisitionMayStillLand, though a read shows that
// one has landed.
func TestS6ACandidateThatEndsReleasesNothingWhileItsAcquisitionMayStillLand(t *testing.T) {
	scenario(t, func(s *stage) {
		lock := &givesUp{Lock: s.lock, over: make(chan struct{})}
		s.T.Cleanup(func() { close(lock.over) })
		lock.gives.Store(true)
		lock.lands.Store(true)
		a := s.start("a", func(c *election.Config) { c.Lock = lock })
		time.Sleep(interval / 2)
		lock.gives.Store(false) // a release would land
		a.Stop()
		if err := a.Wait(); err != nil {
			t.Errorf("Run: %v", err)
		}
		if r := s.record(); r.Holder != "a" {
			t.Errorf("the holder is %q", r.Holder)
		}
	})
}
