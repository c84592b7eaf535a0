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

// admitted gives a candidate a lock whose server changes what is written. As [locks.Lock] wants it, such a write is not
// acknowledged.
func admitted(change *atomic.Pointer[func(*locks.Record)]) func(*election.Config) {
	return altering(func(l *altered) {
		l.write = func(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
			f := change.Load()
			if f == nil {
				return l.Lock.Write(ctx, base, r)
			}
			(*f)(&r)
			s, err := l.Lock.Write(ctx, base, r)
			return s, errors.Join(err, errors.New("the answer does not show this write"))
		}
	})
}

// TestS7AnAnswerThatShowsAnotherHolderEndsTheTermAtOnce, or one that shows none, also while no read and no
// watch shows it.
func TestS7AnAnswerThatShowsAnotherHolderEndsTheTermAtOnce(t *testing.T) {
	for _, holder := range []string{"thief", ""} {
		scenario(t, func(s *stage) {
			var admission atomic.Pointer[func(*locks.Record)]
			a := s.leader("a", admitted(&admission))
			a.link.Set(lockstest.Fault{Mute: true, LoseReads: true})
			change := func(r *locks.Record) { r.Holder = holder }
			admission.Store(&change)
			s.loses(a, interval, election.ErrLost)
			admission.Store(nil)
		})
	}
}

// TestS1AReadOfALeaseThatAdmissionMadeShorterRenewsNoTerm: others do not wait for as long as the holder
// would trust the write.
func TestS1AReadOfALeaseThatAdmissionMadeShorterRenewsNoTerm(t *testing.T) {
	scenario(t, func(s *stage) {
		var admission atomic.Pointer[func(*locks.Record)]
		a := s.leader("a", admitted(&admission))
		shorter := func(r *locks.Record) { r.LeaseDuration = lease - 3*time.Second }
		admission.Store(&shorter)
		took, cause := a.Loses()
		if !errors.Is(cause, election.ErrLost) || took > timing.DefaultRenewDeadline {
			t.Errorf("the term ended after %v with %v", took, cause)
		}
		time.Sleep(time.Minute)
		a.Idles()
		admission.Store(nil)
		a.Leads()
	})
}
