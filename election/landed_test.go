// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/electiontest"
)

// swallowing is a lock to which writes get lost on their way, while reads and
// watches work, as where one connection of several is dead.
type swallowing struct {
	election.Lock
	writes atomic.Int64 // how many more
}

func (l *swallowing) Write(ctx context.Context, base election.Version, r election.Record) (election.Snapshot, error) {
	if l.writes.Add(-1) >= 0 {
		<-ctx.Done()
		return election.Snapshot{}, ctx.Err()
	}
	return l.Lock.Write(ctx, base, r)
}

// leaderOnSwallowing starts a candidate on such a lock, and returns when it leads.
func leaderOnSwallowing(s *stage) (*seat, *swallowing) {
	var lock *swallowing
	a := s.start("a", func(c *election.Config) {
		lock = &swallowing{Lock: c.Lock}
		c.Lock = lock
	})
	a.Leads()
	return a, lock
}

func TestS6AReadThatShowsAnEarlierRenewalConfirmsNothing(t *testing.T) {
	scenario(t, func(s *stage) {
		a, lock := leaderOnSwallowing(s)
		lock.writes.Store(1000)
		took, _ := a.Loses()
		s.want("the term ends", took, deadline)
	})
}

// TestASlowRenewalIsOvertakenInTimeForAnother: the read tells that it has not
// landed, and the next one has time.
func TestASlowRenewalIsOvertakenInTimeForAnother(t *testing.T) {
	scenario(t, func(s *stage) {
		a, lock := leaderOnSwallowing(s)
		for range 5 {
			lock.writes.Store(1)
			time.Sleep(2 * deadline)
		}
		a.Stays()
	})
}

// TestS6ALockThatMayShowHalfARecordConfirmsNothing: what it shows may be of two
// objects, one of which was written earlier.
func TestS6ALockThatMayShowHalfARecordConfirmsNothing(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a", func(c *election.Config) { c.Lock = coarse{c.Lock, 0} })
		a.Leads()
		a.link.Set(electiontest.Fault{LoseAnswers: true})
		took, _ := a.Loses()
		s.want("the term ends", took, deadline)
	})
}

func TestS1ARenewalThatFailsExtendsNothing(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		a.link.Set(electiontest.Fault{Err: errors.New("connection reset")})
		took, _ := a.Loses()
		s.want("the term ends", took, deadline)
	})
}
