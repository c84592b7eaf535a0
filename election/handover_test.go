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
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/zone"
)

// crowd tells the candidates that join it who campaigns.
type crowd struct {
	peers []locks.Peer
	boxes []chan []locks.Peer
}

func newCrowd(identities ...string) *crowd {
	c := &crowd{}
	for _, i := range identities {
		c.peers = append(c.peers, peer(i))
	}
	return c
}

func (c *crowd) join(config *election.Config) {
	box := make(chan []locks.Peer, 100)
	box <- c.peers
	c.boxes = append(c.boxes, box)
	informed(box)(config)
}

// change changes the crowd, and waits until all candidates know.
func (c *crowd) change(f func(peers []locks.Peer) []locks.Peer) {
	c.peers = f(slices.Clone(c.peers))
	for _, box := range c.boxes {
		box <- c.peers
	}
	synctest.Wait()
}

// behind gives a candidate a takeover delay to wait for, and lets it know those of the others.
func behind(waits map[string]time.Duration) func(*election.Config) {
	return func(c *election.Config) {
		c.TakeoverDelay = func(o election.Takeover) time.Duration { return waits[o.Candidate.Identity] }
	}
}

// asks puts a request on the lock, as kubectl does.
func (s *stage) asks(request string) {
	s.T.Helper()
	s.write(func(r *locks.Record) { r.Details.Request = request })
	synctest.Wait()
}

// handsOver asks the leader to hand over.
func (s *stage) handsOver(c *seat, to locks.Successor) {
	s.T.Helper()
	s.asks(requests.FormatHandover(requests.Handover{Holder: c.Status().Identity, Successor: to}))
}

func TestTheNamedSuccessorLeadsAtOnce(t *testing.T) {
	scenario(t, func(s *stage) {
		all, waits := newCrowd("a", "b", "c"), behind(map[string]time.Duration{"b": time.Minute})
		a := s.leader("a", all.join, waits)
		b, c := s.start("b", all.join, waits), s.start("c", all.join, waits)
		a.SetStopTime(3 * time.Second)
		s.handsOver(a, locks.Successor{Identity: "b"})
		if cause := <-a.Ended; !errors.Is(cause, election.ErrHandedOver) || !strings.HasSuffix(cause.Error(), " to b") {
			t.Errorf("cause is %v", cause)
		}
		s.leads(b, 3*time.Second, status.CauseReleased) // only after the work has stopped
		if h := s.record().Details.Handover; h != (locks.Handover{}) {
			t.Errorf("the next term's record still says %+v", h)
		}
		c.Idles()
		// Back at once: that a gave the lock up does not hold it off then.
		s.handsOver(b, locks.Successor{Identity: "a"})
		s.leads(a, 0)
	})
}

func TestASuccessorThatDoesNotComeIsWaitedForByItsPrecedence(t *testing.T) {
	scenario(t, func(s *stage) {
		waits := behind(map[string]time.Duration{"c": 100 * time.Millisecond})
		a := s.leader("a")
		b, c := s.start("b"), s.start("c", waits)
		b.link.Set(cut)
		s.handsOver(a, locks.Successor{Identity: "b"})
		if h := s.record().Details.Handover; h != (locks.Handover{To: "b", Precedence: precedence}) {
			t.Errorf("the record says %+v", h)
		}
		s.leads(c, precedence+100*time.Millisecond)
		a.Stop()
		s.handsOver(c, locks.Successor{Identity: "b"})
		s.leads(c, precedence+interval) // which leaves it to others longer than they wait
	})
}

func TestWhoWouldComeFirstIsHandedOverTo(t *testing.T) {
	starts := map[string]time.Duration{"b": 2, "c": 3, "d": 3, "e": 1}
	type row struct {
		to        locks.Successor
		evacuated string
		sick      string
		want      string
	}
	each(t, map[string]row{
		"anybody":                     {want: "e"},
		"not the sick":                {sick: "e", want: "b"},
		"not in an evacuated zone":    {evacuated: "z-e,z-b", want: "c"},
		"in a zone":                   {to: locks.Successor{Zone: "z-d"}, want: "d"},
		"that one":                    {to: locks.Successor{Identity: "d"}, want: "d"},
		"that one, evacuated or not":  {to: locks.Successor{Identity: "d"}, evacuated: "z-d", want: "d"},
		"that one of that zone":       {to: locks.Successor{Identity: "d", Zone: "z-d"}, want: "d"},
		"by identity where all equal": {sick: "b", evacuated: "z-e", want: "c"},
	}, func(s *stage, tc row) {
		all := newCrowd("e", "d", "a", "c", "b")
		a := s.leader("a", all.join, behind(starts))
		s.write(func(r *locks.Record) { r.Evacuated = tc.evacuated })
		all.change(func(peers []locks.Peer) []locks.Peer {
			for n := range peers {
				if peers[n].Identity == tc.sick {
					peers[n].Unhealthy = "sick"
				}
			}
			return peers
		})
		s.handsOver(a, tc.to)
		if got := s.record().Details.Handover.To; got != tc.want {
			s.T.Errorf("handed over to %q, want %q", got, tc.want)
		}
	})
}

// TestALeaderHandsOverWithinAPreferredZone: it gives the lock up, and its zone has not failed.
func TestALeaderHandsOverWithinAPreferredZone(t *testing.T) {
	scenario(t, func(s *stage) {
		all := newCrowd("a", "b", "c")
		all.peers[1].Zone = "z-a"
		order := zone.Order{Preferred: []string{"z-a"}}
		a := s.leader("a", all.join, func(c *election.Config) { c.TakeoverDelay = order.TakeoverDelay })
		s.handsOver(a, locks.Successor{})
		if got := s.record().Details.Handover.To; got != "b" {
			t.Errorf("handed over to %q, want b", got)
		}
	})
}

func TestARefusedHandoverChangesNothing(t *testing.T) {
	sick := peer("sick")
	sick.Unhealthy = "its disk is full"
	to := func(to locks.Successor) string {
		return requests.FormatHandover(requests.Handover{Holder: "a", Successor: to})
	}
	type row struct {
		request string
		alone   bool
		says    string
	}
	each(t, map[string]row{
		"unknown":             {to(locks.Successor{Identity: "x"}), false, "no candidate x is known"},
		"a long name":         {to(locks.Successor{Identity: strings.Repeat("ä", 400)}), false, "no candidate ää"},
		"in another zone":     {to(locks.Successor{Identity: "b", Zone: "z-c"}), false, "no candidate b is known"},
		"itself":              {to(locks.Successor{Identity: "a"}), false, "a is the leader itself"},
		"zone without others": {to(locks.Successor{Zone: "z-a"}), false, "no other candidate is known in zone z-a"},
		"evacuated zone":      {to(locks.Successor{Zone: "z-c"}), false, "zone z-c is evacuated"},
		"sick":                {to(locks.Successor{Identity: "sick"}), false, "sick: its disk is full"},
		"zone of the sick":    {to(locks.Successor{Zone: "z-sick"}), false, "its disk is full"},
		"nobody else":         {to(locks.Successor{}), true, "no other candidate is known"},
		"no JSON":             {`now`, false, "invalid handover request"},
		"to nobody":           {`{}`, false, "names no holder"},
	}, func(s *stage, tc row) {
		all := newCrowd("a", "b", "c")
		all.peers = append(all.peers, sick)
		if tc.alone {
			all = newCrowd("a")
		}
		a := s.leader("a", all.join)
		s.write(func(r *locks.Record) { r.Evacuated = "z-c" })
		synctest.Wait()
		told := a.Subscribe(s.T.Context())
		s.asks(tc.request)
		d := s.record().Details
		if d.Request != "" || !strings.Contains(d.Refused, tc.says) || len(d.Refused) > 600 {
			s.T.Errorf("the record says %+v", d)
		}
		if tr := <-told; tr.Change != status.ChangeRefused || tr.Cause == nil || tr.Status.State != status.StateLeader {
			s.T.Errorf("told %+v", tr)
		}
		time.Sleep(2 * lease)
		a.Stays()
		if h := s.record(); h.Holder != "a" || h.Details.Handover != (locks.Handover{}) || h.Details.Refused != d.Refused {
			s.T.Errorf("then the record is %+v", h)
		}
		all.change(func([]locks.Peer) []locks.Peer { return newCrowd("a", "b").peers })
		b := s.start("b")
		s.handsOver(a, locks.Successor{Identity: "b"})
		b.Leads()
		if d := s.record().Details; d.Refused != "" {
			s.T.Errorf("the next term's record says %+v", d)
		}
	})
}

func TestWithoutPeersAnIdentityIsTakenAsGiven(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		b := s.start("b")
		s.handsOver(a, locks.Successor{Zone: "z-b"})
		a.Stays()
		if refused := s.record().Details.Refused; !strings.Contains(refused, "name an identity") {
			t.Errorf("a handover to a zone: the record says %q", refused)
		}
		s.handsOver(a, locks.Successor{})
		if h := s.record().Details.Handover; h != (locks.Handover{}) {
			t.Errorf("the record says %+v", h)
		}
		b.Leads()
		s.handsOver(b, locks.Successor{Identity: "c"})
		s.leads(a, precedence) // before b, which gave it up
	})
}

func TestASuccessorThatIsGoneWhenTheWorkHasStoppedIsReplaced(t *testing.T) {
	scenario(t, func(s *stage) {
		all := newCrowd("a", "b", "c")
		a := s.leader("a", all.join)
		a.SetStopTime(10 * time.Second)
		s.handsOver(a, locks.Successor{})
		time.Sleep(time.Second)
		all.change(func(p []locks.Peer) []locks.Peer { return slices.Delete(p, 1, 2) })
		s.evacuates("z-a")
		s.handsOver(a, locks.Successor{Identity: "c"})
		if s.record().Details.Refused == "" || a.Status().Staying != "" {
			t.Errorf("a says %q, and the record %+v", a.Status().Staying, s.record())
		}
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if d := s.record().Details; d.Handover.To != "c" || d.Refused != "" {
			t.Errorf("the record says %+v", d)
		}
	})
}

// TestARequestIsSeenWhateverIsOnItsWay: a renewal is, and no watch tells of the request.
func TestARequestIsSeenWhateverIsOnItsWay(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		b := s.start("b")
		a.link.Set(lockstest.Fault{Delay: time.Second, Mute: true})
		time.Sleep(interval + interval/4)
		s.handsOver(a, locks.Successor{Identity: "b"})
		if took, cause := a.Loses(); !errors.Is(cause, election.ErrHandedOver) || took > 2*interval {
			t.Errorf("a ended after %v: %v", took, cause)
		}
		b.Leads()
	})
}

// TestARequestThatIsGrantedIsNotRefused, though the record shows it once more while the work stops.
// Another one is refused then.
func TestARequestThatIsGrantedIsNotRefused(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.leader("a", newCrowd("a", "b", "c").join)
		a.SetStopTime(5 * time.Second)
		b := s.start("b")
		s.handsOver(a, locks.Successor{Identity: "b"})
		for range 3 {
			s.handsOver(a, locks.Successor{Identity: "b"})
			if refused := s.record().Details.Refused; refused != "" {
				t.Errorf("the record says %q", refused)
			}
		}
		s.handsOver(a, locks.Successor{Identity: "c"})
		if refused := s.record().Details.Refused; !strings.Contains(refused, "ends already") {
			t.Errorf("another request: the record says %q", refused)
		}
		b.Leads()
	})
}

func TestARequestToAnotherHolderIsVoid(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		b := s.start("b")
		s.asks(`{"holder":"b","identity":"b"}`)
		time.Sleep(interval)
		a.Stays()
		if d := s.record().Details; d.Request != "" || d.Refused != "" {
			t.Errorf("the record says %+v", d)
		}
		a.link.Set(cut)
		s.asks(`{"holder":"b","identity":"a"}`)
		b.Leads() // and what the record said before does not count
		time.Sleep(interval)
		b.Stays()
		if d := s.record().Details; d.Request != "" {
			t.Errorf("the record says %+v", d)
		}
	})
}

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
		"not known who is":  {func(*election.Config) {}, "does not know the other candidates"},
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
