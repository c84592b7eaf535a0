// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// TestConflictsThatNothingExplainsAreNotMetInHaste: a server, a quota or a
// webhook may answer so for as long as it likes, to a leader and to a candidate.
func TestConflictsThatNothingExplainsAreNotMetInHaste(t *testing.T) {
	each(t, map[string]func(locks.Snapshot) (locks.Snapshot, error){
		"to writes":                      func(s locks.Snapshot) (locks.Snapshot, error) { return s, nil },
		"to writes of what is not there": func(locks.Snapshot) (locks.Snapshot, error) { return locks.Snapshot{}, nil },
		"and reads are canceled":         func(locks.Snapshot) (locks.Snapshot, error) { return locks.Snapshot{}, context.Canceled },
		"to requests":                    func(locks.Snapshot) (locks.Snapshot, error) { return locks.Snapshot{}, locks.ErrConflict },
	}, func(s *stage, reads func(locks.Snapshot) (locks.Snapshot, error)) {
		var denies atomic.Bool
		var count atomic.Int64
		enough := func(ctx context.Context) { // stops a candidate that never pauses
			if count.Add(1) > 10_000 {
				<-ctx.Done()
			}
		}
		a := s.leader("a", altering(func(l *altered) {
			l.read = func(ctx context.Context) (locks.Snapshot, error) {
				enough(ctx)
				now, err := l.Lock.Read(ctx)
				if denies.Load() {
					return reads(now)
				}
				return now, err
			}
			l.write = func(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
				if enough(ctx); denies.Load() {
					return locks.Snapshot{}, locks.ErrConflict
				}
				return l.Lock.Write(ctx, base, r)
			}
		}))
		count.Store(0)
		denies.Store(true)
		time.Sleep(time.Minute)
		if n := count.Load(); n > 60*12 {
			s.T.Errorf("%d requests in a minute", n)
		}
		denies.Store(false)
		a.Leads()
	})
}
