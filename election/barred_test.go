// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

const barred = "this record is for others"

// bars gives a candidate a lock whose record is barred once it is set.
func bars(set *atomic.Bool) func(*election.Config) {
	return altering(func(l *altered) {
		l.shows = func(s *locks.Snapshot) {
			if set.Load() {
				s.Barred = barred
			}
		}
	})
}

func TestNobodyCampaignsForARecordThatIsBarred(t *testing.T) {
	scenario(t, func(s *stage) {
		s.write(held(lease))
		var set atomic.Bool
		set.Store(true)
		a := s.start("a", bars(&set))
		time.Sleep(3 * lease)
		a.Idles()
		if got := a.Status().Waiting; got != barred {
			t.Errorf("it waits for %q", got)
		}
		set.Store(false)
		s.write(func(r *locks.Record) { r.Holder = "" })
		s.write(func(r *locks.Record) { r.Holder, r.RenewTime = "x", time.Now() })
		s.leads(a, lease)
		if got := a.Status().Waiting; got != "" {
			t.Errorf("it leads, and waits for %q", got)
		}
	})
}

// TestALeaderStopsInGoodOrderWhenItsRecordIsBarred, also if only the answer to its renewal says so.
func TestALeaderStopsInGoodOrderWhenItsRecordIsBarred(t *testing.T) {
	for _, mute := range []bool{false, true} {
		scenario(t, func(s *stage) {
			var set atomic.Bool
			a := s.leader("a", bars(&set))
			set.Store(true)
			if a.link.Set(lockstest.Fault{Mute: mute}); !mute {
				s.write(func(r *locks.Record) { r.Evacuated = "zx" })
			}
			if took, cause := a.Loses(); !errors.Is(cause, election.ErrWithdrawn) || took > interval {
				t.Errorf("the term ended after %v with %v", took, cause)
			}
			time.Sleep(time.Second)
			s.holds("then", "")
			time.Sleep(3 * lease)
			a.Idles()
		})
	}
}

// TestABarredCandidateKeepsNoLockThatItLost: it would not come back for it.
func TestABarredCandidateKeepsNoLockThatItLost(t *testing.T) {
	scenario(t, func(s *stage) {
		var set atomic.Bool
		a := s.start("a", bars(&set))
		a.Leads()
		time.Sleep(interval + time.Second)
		a.SetStopTime(interval)
		set.Store(true)
		s.write(func(r *locks.Record) { r.Holder = "" })
		synctest.Wait()
		if r := s.record(); r.Holder != "a" {
			t.Errorf("while the work stops, %q holds the lock", r.Holder)
		}
		a.Loses()
		time.Sleep(2 * interval)
		if r := s.record(); r.Holder != "" {
			t.Errorf("%s holds the lock", r.Holder)
		}
	})
}
