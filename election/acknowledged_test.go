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
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

// admitted is a lock whose server changes what is written. As [locks.Lock] wants it, such a write is not
// acknowledged.
type admitted struct {
	locks.Lock
	change atomic.Pointer[func(*locks.Record)]
}

func (a *admitted) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	change := a.change.Load()
	if change == nil {
		return a.Lock.Write(ctx, base, r)
	}
	(*change)(&r)
	s, err := a.Lock.Write(ctx, base, r)
	return s, errors.Join(err, errors.New("the answer does not show this write"))
}

// TestS7AnAnswerThatShowsAnotherHolderEndsTheTermAtOnce, or one that shows none, also while no read and no
// watch shows it.
func TestS7AnAnswerThatShowsAnotherHolderEndsTheTermAtOnce(t *testing.T) {
	for _, holder := range []string{"thief", ""} {
		scenario(t, func(s *stage) {
			var lock *admitted
			a := s.start("a", func(c *election.Config) { lock = &admitted{Lock: c.Lock}; c.Lock = lock })
			a.Leads()
			a.link.Set(lockstest.Fault{Mute: true, LoseReads: true})
			change := func(r *locks.Record) { r.Holder = holder }
			lock.change.Store(&change)
			took, cause := a.Loses()
			if s.want("the term ends", took, interval); !errors.Is(cause, election.ErrLost) {
				t.Error(cause)
			}
			lock.change.Store(nil)
		})
	}
}

// TestS1AReadOfALeaseThatAdmissionMadeShorterRenewsNoTerm: others do not wait for as long as the holder
// would trust the write.
func TestS1AReadOfALeaseThatAdmissionMadeShorterRenewsNoTerm(t *testing.T) {
	scenario(t, func(s *stage) {
		var lock *admitted
		a := s.start("a", func(c *election.Config) { lock = &admitted{Lock: c.Lock}; c.Lock = lock })
		a.Leads()
		shorter := func(r *locks.Record) { r.LeaseDuration = lease - 3*time.Second }
		lock.change.Store(&shorter)
		took, cause := a.Loses()
		if !errors.Is(cause, election.ErrLost) || took > timing.DefaultRenewDeadline {
			t.Errorf("the term ended after %v with %v", took, cause)
		}
		time.Sleep(time.Minute)
		a.Idles()
		lock.change.Store(nil)
		a.Leads()
	})
}
