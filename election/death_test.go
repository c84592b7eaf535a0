// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

// in makes a candidate one process of a container. Another one of it begins when that has ended.
func in(container, process string) func(*election.Config) {
	return func(c *election.Config) { c.ProcessLock = func() string { return container + "/" + process } }
}

// die ends a candidate as the end of its process does: its work is gone, and it no longer
// sends anything.
func (c *seat) die() {
	c.link.Set(cut)
	c.SetStopTime(0)
	c.Stop()
	synctest.Wait()
}

func TestS3TheNextProcessOfTheHoldersContainerNeedNotWaitForTheLease(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.leader("a", in("x", "1"))
		a.die()
		b := s.start("b", in("x", "2"))
		s.leads(b, 0, status.CauseDied)
		time.Sleep(2 * interval)
		if got := s.record().Details.ProcessLock; got != "x/2" {
			t.Errorf("the record says that its holder has the process lock %q", got)
		}
	})
}

// TestALateRenewalOfADeadHolderDoesNotBringItBack: the holder sent it before its end, and
// it lands between the proof and the takeover's write.
func TestALateRenewalOfADeadHolderDoesNotBringItBack(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.leader("a", in("x", "1"))
		a.die()
		b := s.candidate("b", in("x", "2"))
		b.link.Set(lockstest.Fault{Delay: 100 * time.Millisecond})
		b.Start()
		time.Sleep(250 * time.Millisecond) // b's write is on its way
		s.write(func(r *locks.Record) { r.RenewTime = r.RenewTime.Add(interval) })
		term, took := b.Leads()
		if took > time.Second || term.Cause != status.CauseDied {
			t.Errorf("b leads after %v: %+v", took, term)
		}
	})
}

// TestS3WhoseProcessMayLiveKeepsTheLockForItsLease: the holder is a process of another container, or
// lives in this one, or is not known by what the record says.
func TestS3WhoseProcessMayLiveKeepsTheLockForItsLease(t *testing.T) {
	type row struct {
		leads, asks func(*election.Config)
		then        func(*locks.Record)
	}
	each(t, map[string]row{
		"another container": {leads: in("x", "1"), asks: in("y", "2")},
		"the same process":  {leads: in("x", "1"), asks: in("x", "1")},
		"the holder has no process lock": {
			leads: func(*election.Config) {}, asks: in("x", "2"),
		},
		"the holder's is garbage": {
			leads: func(c *election.Config) { c.ProcessLock = func() string { return "garbage" } }, asks: func(*election.Config) {},
		},
		"neither has one": {leads: func(*election.Config) {}, asks: func(*election.Config) {}},
		"client-go's candidate has taken the lock since": {
			leads: in("x", "1"), asks: in("x", "2"), then: func(r *locks.Record) { r.Holder = "client-go"; r.Transitions++ },
		},
		"another process of the identity has taken the lock since": {
			leads: in("x", "1"), asks: in("x", "2"), then: func(r *locks.Record) { r.Details.ProcessLock = "y/1"; r.Transitions++ },
		},
		"a part of the record is gone": {leads: in("x", "1"), asks: func(c *election.Config) {
			in("x", "2")(c)
			altering(partial)(c)
		}},
	}, func(s *stage, tc row) {
		a := s.leader("a", tc.leads)
		a.die()
		if tc.then != nil {
			s.write(tc.then)
		}
		s.leads(s.start("b", tc.asks), lease)
	})
}
