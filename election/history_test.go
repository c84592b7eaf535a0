// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/internal/history"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

// terms are those in the lock's history, each as "HOLDER CAUSE", and with TOKEN if it has one,
// and after GAP if nobody led before for a time that is known.
func (s *stage) terms() (all []string) {
	s.T.Helper()
	terms, err := history.Parse(s.record().History)
	if err != nil {
		s.T.Errorf("the history %q: %v", s.record().History, err)
	}
	for _, n := range terms {
		text := n.Holder + " " + n.Cause
		if n.Token != 0 {
			text += fmt.Sprint(" ", n.Token)
		}
		if n.NobodyLed != nil {
			text += fmt.Sprint(" after ", *n.NobodyLed)
		}
		all = append(all, text)
	}
	return all
}

func (s *stage) wantTerms(when string, want ...string) {
	s.T.Helper()
	synctest.Wait()
	if got := s.terms(); !slices.Equal(got, want) {
		s.T.Errorf("%s: the history is\n%q, want\n%q", when, got, want)
	}
}

// wantLedTermsNoted checks that the lock's history has each term that was led since the first one
// in it, once and in order. It may have others, whose work never began. It may lack some before one
// that began with a deleted record, because that one's holder wrote what it had seen.
func (s *stage) wantLedTermsNoted() {
	s.T.Helper()
	noted, err := history.Parse(history.Of(s.record()))
	if err != nil {
		s.T.Errorf("the history cannot be read: %v", err)
	}
	var since uint64
	tokens := map[uint64]bool{0: true}
	for i, n := range noted {
		if n.Cause == "" || n.Cause == history.CauseOtherProgram {
			s.T.Errorf("nobody noted %+v when it began", n)
		}
		switch {
		case n.Token == 0:
		case tokens[n.Token]:
			s.T.Errorf("two terms have the token %d: %+v", n.Token, noted)
		case len(tokens) == 1: // those before it had no token: they are not looked at
			since, noted = n.Token, noted[i:]
		}
		tokens[n.Token] = true
	}
	for _, term := range s.History.Terms() {
		if term.Token < since || since == 0 {
			continue
		}
		of := func(n history.Term) bool {
			return n.Holder == term.Holder && (n.Token == term.Token || n.Token == 0) && n.Cause == string(term.Cause)
		}
		i := slices.IndexFunc(noted, of)
		if i < 0 && len(noted) > 0 && noted[0].Cause == string(status.CauseDeleted) && (noted[0].Token == 0 || term.Token < noted[0].Token) {
			continue
		}
		if i < 0 {
			s.T.Errorf("the term of %s with token %d, %s, is not among %+v", term.Holder, term.Token, term.Cause, noted)
			return
		}
		noted = noted[i+1:]
	}
}

// TestEachChangeIsNotedOnce, with what is known of it when it happens. The next one notes the
// token.
func TestEachChangeIsNotedOnce(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		first, _ := a.Leads()
		s.wantTerms("a leads", "a absent")
		all, _ := history.Parse(s.record().History)
		if n := all[0]; n.Zone != "z-a" || n.Acquired.Sub(s.record().AcquireTime).Abs() > time.Millisecond {
			t.Errorf("noted as %+v, and the record is %+v", n, s.record())
		}
		time.Sleep(interval + time.Second)
		b := s.start("b")
		a.Stop()
		second, _ := b.Leads()
		ofA := fmt.Sprint("a absent ", first.Token)
		s.wantTerms("a gave up", ofA, "b released after 0s")
		time.Sleep(2*interval + time.Millisecond)
		c := s.start("c")
		time.Sleep(interval)
		b.link.Set(cut)
		c.Leads()
		ofB := fmt.Sprintf("b released %d after 0s", second.Token)
		s.wantTerms("b fell silent", ofA, ofB, "c expired after 15s")
	})
}

// TestRenewalsAndReleasesKeepTheHistory, and so do those who take a deleted record's place.
func TestRenewalsAndReleasesKeepTheHistory(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		term, _ := a.Leads()
		time.Sleep(interval)
		s.write(func(r *locks.Record) { r.History = `[{"holder":"x"},` + r.History[1:] })
		kept := func(when string) { s.wantTerms(when, "x ", "a absent") }
		time.Sleep(2 * interval)
		kept("after renewals")
		s.lock.Delete()
		time.Sleep(interval)
		kept("after a deletion")
		s.write(func(r *locks.Record) { r.LeaseDuration *= 2 })
		time.Sleep(interval)
		kept("after it was mended")
		a.Stop()
		a.Loses()
		kept("after the release")
		s.start("b").Leads()
		s.wantTerms("after a takeover", "x ", fmt.Sprint("a absent ", term.Token), "b released")
	})
}

func TestADeletedRecordsHistoryGoesOn(t *testing.T) {
	scenario(t, func(s *stage) {
		a, b := s.start("a"), s.candidate("b")
		term, _ := a.Leads()
		time.Sleep(interval)
		b.Start()
		time.Sleep(interval + time.Second)
		a.link.Set(cut)
		s.lock.Delete()
		b.Leads()
		s.wantTerms("after the deletion", fmt.Sprint("a absent ", term.Token), "b deleted after 15s")
	})
}

// TestADeletedRecordsHistoryIsWhatItsNextHolderHasSeen: nobody else knows it any more.
func TestADeletedRecordsHistoryIsWhatItsNextHolderHasSeen(t *testing.T) {
	scenario(t, func(s *stage) {
		a, b := s.start("a"), s.candidate("b")
		first, _ := a.Leads()
		time.Sleep(interval)
		b.Start()
		time.Sleep(interval + time.Second)
		b.link.Set(cut)
		a.Stop()
		c := s.start("c")
		c.Leads()
		time.Sleep(interval)
		c.link.Set(cut)
		s.lock.Delete()
		s.lock.Expire() // what a watch could have shown
		b.link.Set(lockstest.Fault{})
		b.Leads()
		if got := s.terms(); len(got) != 2 || got[0] != fmt.Sprint("a absent ", first.Token) || !strings.HasPrefix(got[1], "b deleted") {
			t.Errorf("the history is %q", got)
		}
	})
}

// TestATermOfAnotherProgramIsNoted, although that program notes nothing itself: while its record
// names it, and after it gave the lock up too if somebody saw it lead.
func TestATermOfAnotherProgramIsNoted(t *testing.T) {
	for what, after := range map[string]func(r *locks.Record){
		"it holds the lock": func(*locks.Record) {},
		"it gave the lock up": func(r *locks.Record) {
			r.Holder, r.LeaseDuration, r.AcquireTime, r.RenewTime = "", time.Second, time.Now(), time.Now()
		},
	} {
		t.Run(what, func(t *testing.T) {
			scenario(t, func(s *stage) {
				a := s.start("a")
				term, _ := a.Leads()
				time.Sleep(interval + time.Second)
				a.Stop()
				a.Loses()
				took := time.Now()
				s.write(func(r *locks.Record) {
					r.Holder, r.LeaseDuration, r.AcquireTime, r.RenewTime = "client-go", lease, took, took
					r.Transitions++
				})
				b := s.start("b")
				time.Sleep(time.Second)
				s.write(after)
				b.Leads()
				all, _ := history.Parse(s.record().History)
				if len(all) != 3 || all[0].Token != term.Token || all[1].Holder != "client-go" || all[1].Cause != history.CauseOtherProgram || all[1].Token != 0 ||
					all[1].Acquired.UnixMilli() != took.UnixMilli() || all[2].Holder != "b" {
					t.Errorf("the history is %+v", all)
				}
			})
		})
	}
}

// TestALostAnswerNotesNoTermTwice: the acquisition landed, no term began with it, and the same
// candidacy takes the lock once more.
func TestALostAnswerNotesNoTermTwice(t *testing.T) {
	for what, c := range map[string]func(c *election.Config){
		"a lock that shows it":      func(*election.Config) {},
		"a lock that may show half": func(c *election.Config) { c.Lock = coarse{c.Lock, 0} },
	} {
		t.Run(what, func(t *testing.T) {
			scenario(t, func(s *stage) {
				a := s.candidate("a", c)
				a.link.Set(lockstest.Fault{LoseAnswers: true})
				a.Start()
				time.Sleep(time.Second)
				a.link.Set(lockstest.Fault{})
				a.Leads()
				s.wantTerms("a leads at last", "a absent")
			})
		})
	}
}

// TestATermThatIsReclaimedIsATermOfItsOwn: it has another token.
func TestATermThatIsReclaimedIsATermOfItsOwn(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		term, _ := a.Leads()
		time.Sleep(interval + time.Second)
		a.link.Set(cut)
		a.Loses()
		a.link.Set(lockstest.Fault{})
		again, _ := a.Leads()
		if again.Cause != status.CauseReclaimed {
			t.Fatalf("it leads again: %+v", again)
		}
		all, _ := history.Parse(s.record().History)
		if len(all) != 2 || all[0].Token != term.Token || all[1].Cause != "reclaimed" || all[1].NobodyLed == nil || *all[1].NobodyLed < deadline {
			t.Errorf("the history is %+v", all)
		}
	})
}

// TestHowLongNobodyLedIsSaidOnlyByWhoSawIt: a candidate that starts does not know how old the
// record is that it finds.
func TestHowLongNobodyLedIsSaidOnlyByWhoSawIt(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		time.Sleep(interval - time.Second)
		a.link.Set(cut)
		time.Sleep(time.Hour)
		s.start("b").Leads()
		s.wantTerms("b waited for what it found", "a absent", "b expired")
	})
}

// TestGarbageInTheHistoryCostsNoAcquisition, and no renewal.
func TestGarbageInTheHistoryCostsNoAcquisition(t *testing.T) {
	for what, text := range map[string]string{
		"no JSON": "\x00garbage", "too long": "[" + strings.Repeat(`{"holder":"x"},`, 2000) + "{}]", "half of it": `[{"holder":"x"},{"hol`, "a huge term": `[{"holder":"` + strings.Repeat("x", 4000) + `"}]`,
	} {
		t.Run(what, func(t *testing.T) {
			scenario(t, func(s *stage) {
				a := s.start("a")
				a.Leads()
				s.write(func(r *locks.Record) { r.History = text })
				time.Sleep(time.Minute)
				a.Stays()
				b := s.start("b")
				a.Stop()
				b.Leads()
				h := s.record().History
				all, _ := history.Parse(h)
				if len(h) > history.MaxBytes || len(all) == 0 || all[len(all)-1].Holder != "b" {
					t.Errorf("the history is %.100q, of %d bytes", h, len(h))
				}
			})
		})
	}
}

// TestAHistoryOfManyTermsStaysShort.
func TestAHistoryOfManyTermsStaysShort(t *testing.T) {
	scenario(t, func(s *stage) {
		seats := []*seat{s.start("a"), s.start("b")}
		for i := range 30 {
			if i > 0 {
				time.Sleep(2 * interval)
				go seats[(i+1)%2].Resign(s.T.Context())
			}
			seats[i%2].Leads()
		}
		all := s.terms()
		if len(all) != history.MaxTerms || len(s.record().History) > history.MaxBytes {
			t.Errorf("it has %d terms in %d bytes", len(all), len(s.record().History))
		}
		tokens := map[uint64]bool{}
		terms, _ := history.Parse(history.Of(s.record()))
		for _, n := range terms {
			tokens[n.Token] = true
		}
		if len(tokens) != history.MaxTerms {
			t.Errorf("they have %d tokens: %+v", len(tokens), terms)
		}
	})
}
