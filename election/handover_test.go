// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
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

func (s *stage) handsOver(c *seat, to locks.Successor) {
	s.T.Helper()
	if err := c.HandOver(s.T.Context(), to); err != nil {
		s.T.Fatalf("HandOver to %+v: %v", to, err)
	}
	synctest.Wait()
}

func TestTheNamedSuccessorLeadsAtOnce(t *testing.T) {
	scenario(t, func(s *stage) {
		all, waits := newCrowd("a", "b", "c"), behind(map[string]time.Duration{"b": time.Minute})
		a := s.leader("a", all.join, waits)
		b, c := s.start("b", all.join, waits), s.start("c", all.join, waits)
		a.SetStopTime(3 * time.Second)
		began := time.Now()
		s.handsOver(a, locks.Successor{Identity: "b"})
		s.want("the lock is handed over", time.Since(began), 3*time.Second) // only after the work has stopped
		if cause := <-a.Ended; !errors.Is(cause, election.ErrHandedOver) || !strings.HasSuffix(cause.Error(), " to b") {
			t.Errorf("cause is %v", cause)
		}
		s.leads(b, 0, status.CauseReleased)
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

func TestARefusedHandoverChangesNothing(t *testing.T) {
	sick := peer("sick")
	sick.Unhealthy = "its disk is full"
	type row struct {
		to    locks.Successor
		alone bool
		want  error
		says  string
	}
	each(t, map[string]row{
		"unknown":              {to: locks.Successor{Identity: "x"}, want: election.ErrNoSuccessor, says: "no candidate x is known"},
		"in another zone":      {to: locks.Successor{Identity: "b", Zone: "z-c"}, want: election.ErrNoSuccessor, says: "no candidate b is known"},
		"itself":               {to: locks.Successor{Identity: "a"}, want: election.ErrNoSuccessor, says: "a leads itself"},
		"zone without others":  {to: locks.Successor{Zone: "z-a"}, want: election.ErrNoSuccessor, says: "no other candidate is known in zone z-a"},
		"evacuated zone":       {to: locks.Successor{Zone: "z-c"}, want: election.ErrNoSuccessor, says: "zone z-c is evacuated"},
		"sick":                 {to: locks.Successor{Identity: "sick"}, want: election.ErrSuccessorUnhealthy, says: "sick: its disk is full"},
		"zone of the sick":     {to: locks.Successor{Zone: "z-sick"}, want: election.ErrSuccessorUnhealthy, says: "its disk is full"},
		"nobody else":          {alone: true, want: election.ErrNoSuccessor, says: "no other candidate is known"},
		"an identity too long": {to: locks.Successor{Identity: strings.Repeat("x", 2000)}, want: election.ErrNoSuccessor, says: "1024 bytes"},
	}, func(s *stage, tc row) {
		all := newCrowd("a", "b", "c")
		all.peers = append(all.peers, sick)
		if tc.alone {
			all = newCrowd("a")
		}
		a := s.leader("a", all.join)
		s.write(func(r *locks.Record) { r.Evacuated = "z-c" })
		synctest.Wait()
		if err := a.HandOver(s.T.Context(), tc.to); !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) {
			s.T.Errorf("HandOver: %v, want %v", err, tc.want)
		}
		time.Sleep(2 * lease)
		a.Stays()
		if h := s.record(); h.Holder != "a" || h.Details.Handover != (locks.Handover{}) {
			s.T.Errorf("the record is %+v", h)
		}
	})
}

func TestWithoutPeersAnIdentityIsTakenAsGiven(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		b := s.start("b")
		if err := b.HandOver(s.T.Context(), locks.Successor{Identity: "a"}); !errors.Is(err, election.ErrNotLeading) {
			t.Errorf("HandOver of a follower: %v", err)
		}
		if err := a.HandOver(s.T.Context(), locks.Successor{Zone: "z-b"}); !errors.Is(err, election.ErrNoSuccessor) {
			t.Errorf("HandOver to a zone: %v", err)
		}
		a.Stays()
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
		handed := make(chan error, 1)
		go func() { handed <- a.HandOver(context.Background(), locks.Successor{}) }()
		time.Sleep(time.Second)
		all.change(func(p []locks.Peer) []locks.Peer { return slices.Delete(p, 1, 2) })
		if err := a.HandOver(s.T.Context(), locks.Successor{}); !errors.Is(err, election.ErrStopping) {
			t.Errorf("a second handover: %v, want ErrStopping", err)
		}
		s.evacuates("z-a")
		s.asks(`{"holder":"a","identity":"c"}`)
		if s.record().Details.Refused == "" || a.Status().Staying != "" {
			t.Errorf("a says %q, and the record %+v", a.Status().Staying, s.record())
		}
		if err := <-handed; err != nil {
			t.Error(err)
		}
		if d := s.record().Details; d.Handover.To != "c" || d.Refused != "" {
			t.Errorf("the record says %+v", d)
		}
	})
}

// asks puts a request on the lock, as kubectl does.
func (s *stage) asks(request string) {
	s.T.Helper()
	s.write(func(r *locks.Record) { r.Details.Request = request })
	synctest.Wait()
}

// TestARequestIsSeenWhateverIsOnItsWay: a renewal is, and no watch tells of the request.
func TestARequestIsSeenWhateverIsOnItsWay(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		b := s.start("b")
		a.link.Set(lockstest.Fault{Delay: time.Second, Mute: true})
		time.Sleep(interval + interval/4)
		s.asks(`{"holder":"a","identity":"b"}`)
		if took, cause := a.Loses(); !errors.Is(cause, election.ErrHandedOver) || took > 2*interval {
			t.Errorf("a ended after %v: %v", took, cause)
		}
		b.Leads()
	})
}

func TestARefusedRequestIsAnsweredOnTheRecord(t *testing.T) {
	for request, says := range map[string]string{
		`{"holder":"a","identity":"x"}`:                                "no candidate x is known",
		`{"holder":"a","zone":"z-a"}`:                                  "in zone z-a",
		`{"holder":"a","identity":"` + strings.Repeat("ä", 400) + `"}`: "no candidate ää",
		`now`: "invalid handover request",
		`{}`:  "names no holder",
	} {
		scenario(t, func(s *stage) {
			a := s.leader("a", newCrowd("a", "b").join)
			b := s.start("b")
			told := a.Subscribe(s.T.Context())
			s.asks(request)
			d := s.record().Details
			if d.Request != "" || !strings.Contains(d.Refused, says) || len(d.Refused) > 600 {
				t.Errorf("%s: the record says %+v", request, d)
			}
			if tr := <-told; tr.Change != status.ChangeRefused || tr.Cause == nil || tr.Status.State != status.StateLeader {
				t.Errorf("told %+v", tr)
			}
			time.Sleep(lease)
			a.Stays()
			if again := s.record().Details.Refused; again != d.Refused {
				t.Errorf("then it says %q", again)
			}
			s.asks(`{"holder":"a","identity":"b"}`)
			b.Leads()
			if d := s.record().Details; d.Refused != "" {
				t.Errorf("the next term's record says %+v", d)
			}
		})
	}
}

// TestARequestThatIsGrantedIsNotRefused, though the record shows it once more while the work stops.
// Another one is refused then.
func TestARequestThatIsGrantedIsNotRefused(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a", newCrowd("a", "b", "c").join)
		a.SetStopTime(5 * time.Second)
		a.Leads()
		b := s.start("b")
		s.asks(`{"holder":"a","identity":"b"}`)
		for range 3 {
			s.asks(`{"holder":"a","identity":"b"}`)
			if refused := s.record().Details.Refused; refused != "" {
				t.Errorf("the record says %q", refused)
			}
		}
		s.asks(`{"holder":"a","identity":"c"}`)
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
