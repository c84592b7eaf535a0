// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

// TestS3ARecordOfItsOwnThatWasPutBackIsNotReclaimedAtOnce: somebody else led since, and its work takes all
// the time that it has to stop. Another Run of the process does not know who led since.
func TestS3ARecordOfItsOwnThatWasPutBackIsNotReclaimedAtOnce(t *testing.T) {
	each(t, map[string]struct{ before, after func(*stage, *seat) }{
		"as it was": {
			func(*stage, *seat) {}, func(s *stage, _ *seat) { s.write(func(*locks.Record) {}) },
		},
		"and emptied then": {
			func(*stage, *seat) {}, func(s *stage, _ *seat) { s.write(emptied) },
		},
		"between two Runs": {
			func(_ *stage, a *seat) { a.Stop(); _ = a.Wait() }, func(_ *stage, a *seat) { a.Start() },
		},
	}, func(s *stage, does struct{ before, after func(*stage, *seat) }) {
		a := s.leader("a")
		time.Sleep(interval + interval/2)
		b := s.start("b")
		b.SetStopTime(b.Timing().StopGrace)
		old := s.record()
		a.link.Set(cut)
		b.Leads()
		a.Loses()
		a.link.Set(whole)
		time.Sleep(time.Minute + interval/2) // a has seen b, which does not renew now
		does.before(s, a)
		begun := time.Now()
		s.write(is(old))
		synctest.Wait()
		does.after(s, a)
		b.Loses()
		select {
		case <-a.Leading:
		case <-b.Leading:
		}
		if took := time.Since(begun); took < lease {
			s.T.Errorf("one of them leads %v after the record was put back", took)
		}
	})
}

// TestS3AnAcquisitionThatWasPutBackBeginsNoTermByItsLateAnswer: a term that nobody trusts would be taken back at once.
func TestS3AnAcquisitionThatWasPutBackBeginsNoTermByItsLateAnswer(t *testing.T) {
	scenario(t, func(s *stage) {
		answers := make(chan struct{})
		a := s.start("a", func(c *election.Config) { c.Lock = &deaf{Lock: c.Lock, answers: answers} })
		a.link.Set(lockstest.Fault{LoseReads: true})
		old := s.record()
		b := s.start("b")
		b.SetStopTime(b.Timing().StopGrace)
		b.Leads()
		synctest.Wait() // a has seen b
		begun := time.Now()
		s.write(is(old))
		synctest.Wait()
		a.link.Set(whole)
		close(answers)
		select {
		case <-a.Leading:
		case <-b.Leading:
		}
		if took := time.Since(begun); took < lease {
			t.Errorf("one of them leads %v after the record was put back", took)
		}
	})
}

// TestS5ARecordOfItsOwnThatWasPutBackIsNotReleased: somebody else may have led since, and the next candidate
// would lead at once beside it.
func TestS5ARecordOfItsOwnThatWasPutBackIsNotReleased(t *testing.T) {
	var asleep atomic.Int64
	for name, lose := range map[string]func(*stage, *seat, func()){
		"in a term that another has ended": func(s *stage, a *seat, putBack func()) {
			a.SetStopTime(time.Second)
			s.write(steal)
			a.Loses()
			putBack()
			a.Stop()
		},
		"when Run ends after a term that silence ended": func(s *stage, a *seat, putBack func()) {
			a.link.Set(cut)
			a.Loses()
			s.write(steal)
			a.link.Set(whole)
			time.Sleep(3 * time.Second)
			if holder := a.Status().Holder; holder != "thief" {
				s.T.Fatalf("a knows %q as the holder", holder)
			}
			putBack()
			a.Stop()
		},
		"once its lease may have run out, and nothing was tried before": func(s *stage, a *seat, putBack func()) {
			a.link.Set(cut)
			a.Loses()
			time.Sleep(time.Second)
			a.Stop()
			time.Sleep(lease - deadline)
			s.write(steal)
			putBack()
			a.link.Set(whole)
		},
		"once its lease may have run out in a suspension": func(s *stage, a *seat, putBack func()) {
			a.link.Set(cut)
			a.Loses()
			time.Sleep(time.Second)
			a.Stop()
			asleep.Store(int64(lease - deadline))
			s.write(steal)
			putBack()
			a.link.Set(whole)
		},
		"after a release that landed without an answer": func(s *stage, a *seat, putBack func()) {
			a.link.Set(unanswered)
			a.Stop()
			synctest.Wait()
			if holder := s.record().Holder; holder != "" {
				s.T.Fatalf("%q holds the lock, and a has released it", holder)
			}
			s.write(steal)
			putBack()
			a.link.Set(whole)
		},
		"after such a release, and a read without an answer": func(s *stage, a *seat, putBack func()) {
			a.link.Set(unanswered)
			a.Stop()
			synctest.Wait()
			a.link.Set(lockstest.Fault{Err: errors.New("503")})
			for reads := a.link.Calls("read"); a.link.Calls("read") == reads; {
				time.Sleep(time.Second / 10)
			}
			s.write(steal)
			putBack()
			a.link.Set(whole)
		},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				asleep.Store(0)
				a := s.candidate("a")
				a.SetSuspended(func() time.Duration { return time.Duration(asleep.Load()) })
				a.Start()
				a.Leads()
				time.Sleep(interval + interval/2)
				old := s.record()
				lose(s, a, func() {
					s.write(is(old))
					synctest.Wait()
				})
				s.ends(a)
				s.holds("then", "a")
			})
		})
	}
}

func steal(r *locks.Record) { r.Holder = "thief" }

// TestS5AnAcquisitionIsNotReleasedOnceItsLeaseMayHaveRunOut, if its answer comes as Run is to end: somebody else may have
// had the lock since, and the record may have been put back.
func TestS5AnAcquisitionIsNotReleasedOnceItsLeaseMayHaveRunOut(t *testing.T) {
	for range 200 { // the loop seldom hears of the answer before it hears of the end
		scenario(t, func(s *stage) {
			var mu sync.Mutex
			var sent, last time.Time
			asked := func(acquires bool) (before bool) {
				mu.Lock()
				defer mu.Unlock()
				before, last = sent.IsZero(), time.Now()
				if acquires {
					sent = last
				}
				return before
			}
			away := errors.New("503")
			a := s.start("a", altering(func(l *altered) {
				l.watch = func(ctx context.Context, _ locks.Version, _ chan<- locks.Event) error {
					<-ctx.Done()
					return ctx.Err()
				}
				l.read = func(ctx context.Context) (locks.Snapshot, error) {
					if asked(false) {
						return l.Lock.Read(ctx)
					}
					return locks.Snapshot{}, away
				}
				l.write = func(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
					if asked(r.Holder != ""); r.Holder == "" {
						return locks.Snapshot{}, away
					}
					defer time.Sleep(deadline - time.Second)
					return l.Lock.Write(ctx, base, r)
				}
			}))
			mu.Lock()
			ends := time.Until(sent.Add(deadline - time.Second))
			mu.Unlock()
			time.AfterFunc(ends, a.Stop)
			_ = a.Wait()
			mu.Lock()
			defer mu.Unlock()
			if took := last.Sub(sent); took > lease {
				t.Errorf("it is released %v after it was sent", took)
			}
		})
	}
}

// TestS5AnUnansweredAcquisitionGivesNoEarlierTermUp: its lease may have run out, and a hand may have put its record back.
func TestS5AnUnansweredAcquisitionGivesNoEarlierTermUp(t *testing.T) {
	for after, want := range map[time.Duration]string{0: "", lease: "a"} {
		scenario(t, func(s *stage) {
			a := s.leader("a")
			time.Sleep(interval * 3 / 2) // the record has a token
			a.link.Set(cut)
			a.Loses()
			time.Sleep(after)
			a.link.Set(lockstest.Fault{LoseWrites: true})
			time.Sleep(interval)
			a.Stop()
			a.link.Set(whole)
			time.Sleep(lease)
			s.holds("then", want)
		})
	}
}
