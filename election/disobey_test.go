// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks"
)

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

// TestRunReturnsThoughWhatItWasGivenDoesNotObeyItsContext: it gives up what does not come back.
func TestRunReturnsThoughWhatItWasGivenDoesNotObeyItsContext(t *testing.T) {
	const timeout = 40 * time.Second
	for _, part := range []string{"read", "write", "watch", "attend", "adopt", "peers"} {
		for _, identity := range []string{"a leader", "a follower"} {
			t.Run(part+" of "+identity, func(t *testing.T) {
				scenario(t, func(s *stage) {
					if identity == "a follower" {
						s.start("b").Leads()
					}
					var lock *disobeys
					a := s.start(identity, func(c *election.Config) {
						lock = &disobeys{Lock: c.Lock, let: make(chan struct{})}
						c.Lock, c.Timing.StopTimeout = lock, timeout
						c.WatchPeers = func(ctx context.Context, _ func([]locks.Peer)) { <-ctx.Done(); lock.at("peers") }
					})
					s.T.Cleanup(func() { close(lock.let) })
					lock.part.Store(part)
					time.Sleep(interval + interval/2) // a renewal is under way
					asked := time.Now()
					a.Stop()
					s.ends(a)
					if took := time.Since(asked); took > timeout+interval {
						t.Errorf("Run returned after %v", took)
					}
					if part == "write" && identity == "a leader" {
						s.holds("while a write may still land", identity)
					}
				})
			})
		}
	}
}

// givesUp is a lock whose writes go on after the end of their context while it is set.
type givesUp struct {
	gives  atomic.Bool
	lands  atomic.Bool // the write lands before that
	over   func()      // they come back
	closed atomic.Int32
}

// onGivesUp starts a candidate on such a lock.
func onGivesUp(s *stage, gives, lands bool) (*seat, *givesUp) {
	over, g := make(chan struct{}), &givesUp{}
	g.over = sync.OnceFunc(func() { close(over) })
	g.gives.Store(gives)
	g.lands.Store(lands)
	s.T.Cleanup(g.over)
	return s.start("a", altering(func(l *altered) {
		l.can.CloseConnections = func() { g.closed.Add(1) }
		l.write = func(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
			if !g.gives.Load() {
				return l.Lock.Write(ctx, base, r)
			}
			if g.lands.Load() {
				_, _ = l.Lock.Write(ctx, base, r)
			}
			<-over
			<-ctx.Done()
			return locks.Snapshot{}, ctx.Err()
		}
	})), g
}

// TestS6WhatWasGivenUpKeepsTheLockFromBeingReleased until it has come back.
func TestS6WhatWasGivenUpKeepsTheLockFromBeingReleased(t *testing.T) {
	for back, holder := range map[bool]string{false: "a", true: ""} {
		scenario(t, func(s *stage) {
			a, lock := onGivesUp(s, false, false)
			a.Leads()
			lock.gives.Store(true)
			time.Sleep(interval + interval/2) // a renewal is under way
			a.Stop()
			if back {
				lock.over()
			}
			lock.gives.Store(false)
			s.ends(a)
			s.holds("after the end", holder)
			if closed := lock.closed.Load() > 0; closed == back {
				t.Errorf("the write has come back: %v, and the connections were closed: %v (S12)", back, closed)
			}
		})
	}
}

// TestS6AReleaseThatWasGivenUpIsNotRepeated: it may still land, on what another made of the record.
func TestS6AReleaseThatWasGivenUpIsNotRepeated(t *testing.T) {
	scenario(t, func(s *stage) {
		a, lock := onGivesUp(s, false, false)
		a.Leads()
		lock.gives.Store(true)
		a.Stop() // no renewal is under way
		time.Sleep(interval / 2)
		time.AfterFunc(interval, func() { lock.gives.Store(false) }) // another try would land
		s.ends(a)
		s.holds("after the end", "a")
	})
}

// TestS6ACandidateThatEndsReleasesNothingWhileItsAcquisitionMayStillLand, though a read shows that
// one has landed.
func TestS6ACandidateThatEndsReleasesNothingWhileItsAcquisitionMayStillLand(t *testing.T) {
	scenario(t, func(s *stage) {
		a, lock := onGivesUp(s, true, true)
		time.Sleep(interval / 2)
		lock.gives.Store(false) // a release would land
		a.Stop()
		s.ends(a)
		s.holds("after the end", "a")
	})
}
