// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/electiontest"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/memory"
)

// denying is a lock that answers some requests with a conflict.
type denying struct {
	locks.Lock
	reads, writes, absent, canceled atomic.Bool
	count                           atomic.Int64
}

// enough stops a candidate that never pauses.
func (d *denying) enough(ctx context.Context) {
	if d.count.Add(1) > 10_000 {
		<-ctx.Done()
	}
}

func (d *denying) Read(ctx context.Context) (locks.Snapshot, error) {
	d.enough(ctx)
	if d.canceled.Load() {
		return locks.Snapshot{}, context.Canceled
	}
	if d.reads.Load() {
		return locks.Snapshot{}, locks.ErrConflict
	}
	if d.absent.Load() {
		return locks.Snapshot{}, nil
	}
	return d.Lock.Read(ctx)
}

func (d *denying) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	d.enough(ctx)
	if d.writes.Load() {
		return locks.Snapshot{}, locks.ErrConflict
	}
	return d.Lock.Write(ctx, base, r)
}

// TestConflictsThatNothingExplainsAreNotMetInHaste: a server, a quota or a
// webhook may answer so for as long as it likes, to a leader and to a candidate.
func TestConflictsThatNothingExplainsAreNotMetInHaste(t *testing.T) {
	for name, deny := range map[string]func(d *denying, on bool){
		"to writes":                      func(d *denying, on bool) { d.writes.Store(on) },
		"to writes of what is not there": func(d *denying, on bool) { d.writes.Store(on); d.absent.Store(on) },
		"and reads are canceled":         func(d *denying, on bool) { d.writes.Store(on); d.canceled.Store(on) },
		"to requests":                    func(d *denying, on bool) { d.writes.Store(on); d.reads.Store(on) },
	} {
		t.Run(name, func(t *testing.T) {
			electiontest.Scenario(t, func(s *electiontest.Stage) {
				d := &denying{Lock: memory.New("lock")}
				c := s.Seat(election.Config{Lock: d, Candidate: locks.Candidate{Identity: "a"}})
				c.Start()
				c.Leads()
				d.count.Store(0)
				deny(d, true)
				time.Sleep(time.Minute)
				if n := d.count.Load(); n > 60*12 {
					t.Errorf("%d requests in a minute", n)
				}
				deny(d, false)
				c.Leads()
			})
		})
	}
}
