// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/internal/requests"
	"github.com/zonelect/zonelect/locks"
)

// evacuates marks zones, as kubectl does.
func (s *stage) evacuates(zones string) {
	s.T.Helper()
	s.write(func(r *locks.Record) { r.Evacuated = zones })
	synctest.Wait()
}

func TestALeaderLeavesAnEvacuatedZoneAndDoesNotComeBackByItself(t *testing.T) {
	scenario(t, func(s *stage) {
		all := newCrowd("a", "b", "c")
		a := s.leader("a", all.join)
		s.start("b", all.join)
		c := s.start("c", all.join)
		s.evacuates("z-a,z-b")
		if cause := <-a.Ended; !errors.Is(cause, election.ErrHandedOver) {
			t.Errorf("cause is %v", cause)
		}
		s.leads(c, 0)
		time.Sleep(lease)
		s.evacuates("")
		time.Sleep(lease)
		c.Stays()
	})
}

func TestALeaderStaysInAnEvacuatedZoneWhereNobodyElseIs(t *testing.T) {
	type row struct {
		join func(*election.Config)
		says string
	}
	each(t, map[string]row{
		"known to be alone": {newCrowd("a").join, "no other candidate is known outside the evacuated zones"},
		"not known who is":  {func(*election.Config) {}, "who else campaigns is not known"},
	}, func(s *stage, tc row) {
		a := s.leader("a", tc.join)
		told := a.Subscribe(s.T.Context())
		s.evacuates("z-a")
		stays := a.Status().Staying
		if !strings.Contains(stays, "zone z-a is evacuated") || !strings.Contains(stays, tc.says) || s.record().Details.Refused != stays {
			s.T.Errorf("a says %q, and the record %q", stays, s.record().Details.Refused)
		}
		if tr := <-told; tr.Change != status.ChangeStaying {
			s.T.Errorf("told %+v", tr)
		}
		writes := a.link.Calls("write")
		time.Sleep(10 * interval)
		a.Stays()
		if more := a.link.Calls("write") - writes; more != 10 {
			s.T.Errorf("%d writes in 10 intervals", more)
		}
		s.write(func(r *locks.Record) { r.Evacuated, r.Details.Refused = "z-a,z-b", "" })
		synctest.Wait()
		if got := s.record().Details.Refused; got != stays {
			s.T.Errorf("asked again, it says %q", got)
		}
		s.evacuates("")
		if s.record().Details.Refused != "" || a.Status().Staying != "" {
			s.T.Error("it still says so afterwards")
		}
	})
}

func TestALeaderLeavesAnEvacuatedZoneAsSoonAsAnotherCan(t *testing.T) {
	scenario(t, func(s *stage) {
		all := newCrowd("a", "b")
		all.peers[1].Unhealthy = "sick"
		a := s.leader("a", all.join)
		b := s.start("b", all.join)
		s.evacuates("z-a")
		if stays := a.Status().Staying; !strings.Contains(stays, "b: sick") {
			t.Errorf("a says %q", stays)
		}
		time.Sleep(lease)
		a.Stays()
		all.change(func(p []locks.Peer) []locks.Peer { p[1].Unhealthy = ""; return p })
		s.leads(b, 0)
		if a.Status().Staying != "" {
			t.Errorf("a still says %q", a.Status().Staying)
		}
	})
}

func TestAnEvacuationThatIsOverCountsNoMore(t *testing.T) {
	scenario(t, func(s *stage) {
		all := newCrowd("a")
		a := s.leader("a", all.join)
		s.evacuates(requests.FormatEvacuations([]requests.Evacuation{{Zone: "z-a", Until: time.Now().Add(time.Minute)}}))
		if a.Status().Staying == "" {
			t.Error("a does not say that it should leave")
		}
		time.Sleep(time.Minute + interval)
		all.change(func(p []locks.Peer) []locks.Peer { return append(p, peer("b")) })
		time.Sleep(lease)
		a.Stays()
		if got := a.Status().Staying; got != "" {
			t.Errorf("a says %q", got)
		}
	})
}

// TestASuccessorThatNeverComesIsLeftOutForEightLeases: the object of a candidate may long outlive
// it, if its node died.
func TestASuccessorThatNeverComesIsLeftOutForEightLeases(t *testing.T) {
	scenario(t, func(s *stage) {
		all := newCrowd("a", "ghost")
		a := s.leader("a", all.join)
		s.evacuates("z-a")
		<-a.Ended
		var worked []time.Duration
		for range 2 {
			s.leads(a, precedence+interval)
			if stays := a.Status().Staying; !strings.Contains(stays, "ghost did not take the lock") {
				t.Errorf("a says %q", stays)
			}
			took, _ := a.Loses()
			worked = append(worked, took.Truncate(lease))
		}
		if want := []time.Duration{8 * lease, 8 * lease}; !slices.Equal(worked, want) {
			t.Errorf("it worked for %v, want %v", worked, want)
		}
	})
}
