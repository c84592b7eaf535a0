// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
)

// Identities are unique per process start (S9). If they are pod names, as with client-go,
// two processes may nevertheless have the same one.

func TestS9AnotherProcessOfTheSameIdentityIsWaitedOut(t *testing.T) {
	each(t, map[string]time.Duration{
		"before its first renewal, which notes the token": 0,
		"after its first renewal":                         interval + interval/2,
	}, func(s *stage, age time.Duration) {
		first := s.leader("pod-0")
		time.Sleep(age)
		first.link.Set(cut)
		s.leads(s.start("pod-0"), lease, status.CauseExpired)
	})
}

func TestS7AnotherProcessOfTheSameIdentityEndsTheTermAtOnce(t *testing.T) {
	each(t, map[string]func(*locks.Record){
		"it has noted a newer token":  func(r *locks.Record) { r.Details.Token = 1 << 40 },
		"it has not noted its token":  func(r *locks.Record) { r.Details.Nonce, r.Details.Token = "other", 0 },
		"it has no nonce, as of old":  func(r *locks.Record) { r.Details.Nonce, r.Transitions = "", r.Transitions+1 },
		"it writes no details at all": func(r *locks.Record) { r.Details, r.AcquireTime = locks.Details{}, r.RenewTime },
	}, func(s *stage, harm func(*locks.Record)) {
		a := s.leader("a")
		time.Sleep(interval + time.Millisecond)
		other := s.write(func(r *locks.Record) {
			r.RenewTime = r.RenewTime.Add(time.Second)
			harm(r)
		})
		took, cause := a.Loses()
		s.want("the term ends", took, 0)
		if !errors.Is(cause, election.ErrLost) || !strings.Contains(cause.Error(), "another process of this identity") {
			s.T.Errorf("cause is %v", cause)
		}
		synctest.Wait()
		if now := s.record(); now != other.Record {
			s.T.Errorf("the other's record %+v became %+v", other.Record, now)
		}
		s.leads(a, lease)
	})
}

// TestALeaderWhoseAnnotationsAreTakenOffReleasesAllTheSame: the times of its term show that
// the record is its own.
func TestALeaderWhoseAnnotationsAreTakenOffReleasesAllTheSame(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.leader("a", altering(stripping))
		b := s.start("b")
		time.Sleep(time.Minute)
		a.Idles()
		a.Stop()
		s.leads(b, 0, status.CauseReleased)
	})
}
