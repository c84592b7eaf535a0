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
	for name, age := range map[string]time.Duration{
		"before its first renewal, which notes the token": 0,
		"after its first renewal":                         interval + interval/2,
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				first := s.start("pod-0")
				first.Leads()
				time.Sleep(age)
				first.link.Set(cut)
				term, took := s.start("pod-0").Leads()
				s.want("the second process leads", took, lease)
				if term.Cause != status.CauseExpired {
					t.Errorf("the term is %+v", term)
				}
			})
		})
	}
}

func TestS7AnotherProcessOfTheSameIdentityEndsTheTermAtOnce(t *testing.T) {
	for name, harm := range map[string]func(*locks.Record){
		"it has noted a newer token":  func(r *locks.Record) { r.Details.Token = 1 << 40 },
		"it has not noted its token":  func(r *locks.Record) { r.Details.Nonce, r.Details.Token = "other", 0 },
		"it has no nonce, as of old":  func(r *locks.Record) { r.Details.Nonce, r.Transitions = "", r.Transitions+1 },
		"it writes no details at all": func(r *locks.Record) { r.Details, r.AcquireTime = locks.Details{}, r.RenewTime },
	} {
		t.Run(name, func(t *testing.T) {
			led(t, func(s *stage, a *seat) {
				time.Sleep(interval + time.Millisecond)
				other := s.write(func(r *locks.Record) {
					r.RenewTime = r.RenewTime.Add(time.Second)
					harm(r)
				})
				took, cause := a.Loses()
				s.want("the term ends", took, 0)
				if !errors.Is(cause, election.ErrLost) || !strings.Contains(cause.Error(), "another process of this identity") {
					t.Errorf("cause is %v", cause)
				}
				synctest.Wait()
				if now := s.record(); now != other.Record {
					t.Errorf("the other's record %+v became %+v", other.Record, now)
				}
				_, took = a.Leads()
				s.want("a leads again", took, lease)
			})
		})
	}
}

// TestALeaderWhoseAnnotationsAreTakenOffReleasesAllTheSame: the times of its term show that
// the record is its own.
func TestALeaderWhoseAnnotationsAreTakenOffReleasesAllTheSame(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a", altering(stripping))
		a.Leads()
		b := s.start("b")
		time.Sleep(time.Minute)
		a.Idles()
		a.Stop()
		term, took := b.Leads()
		s.want("b leads", took, 0)
		if term.Cause != status.CauseReleased {
			t.Errorf("the term is %+v", term)
		}
	})
}
