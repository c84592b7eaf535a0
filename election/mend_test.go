// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
)

func TestALiveLeaderMendsAtOnceWhatAHandDoesToItsRecord(t *testing.T) {
	for name, hand := range map[string]func(*locks.Record){
		"a shorter lease":    func(r *locks.Record) { r.LeaseDuration = time.Second },
		"a longer lease":     func(r *locks.Record) { r.LeaseDuration = time.Hour },
		"no lease":           func(r *locks.Record) { r.LeaseDuration = 0 },
		"another renew time": func(r *locks.Record) { r.RenewTime = r.RenewTime.Add(-time.Hour) },
		"another term":       func(r *locks.Record) { r.AcquireTime, r.Transitions = r.RenewTime, 99 },
		"no times":           func(r *locks.Record) { r.RenewTime, r.AcquireTime = time.Time{}, time.Time{} },
		"no annotations":     func(r *locks.Record) { r.Details = locks.Details{} },
		"another's zone":     func(r *locks.Record) { r.Details.Zone = "zx" },
		"no nonce":           func(r *locks.Record) { r.Details.Nonce = "" },
		"a release noted":    func(r *locks.Record) { r.Details.Released = r.Details.Token },
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				a := s.start("a")
				term, _ := a.Leads()
				time.Sleep(interval + interval/2)
				before := s.record()
				harmed := s.write(hand)
				synctest.Wait()
				now := s.record()
				before.RenewTime = time.Now()
				if now != before || now == harmed.Record {
					t.Errorf("right after the hand the record is\n%+v, want\n%+v", now, before)
				}
				time.Sleep(time.Minute)
				a.Stays()
				if term.TrustedFor() <= 0 {
					t.Error("the term is not trusted any more")
				}
			})
		})
	}
}

// TestARequestForAHandoverIsNothingToMend.
func TestARequestForAHandoverIsNothingToMend(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		time.Sleep(interval + interval/2)
		before := a.link.Calls("write")
		s.write(func(r *locks.Record) { r.Details.Request, r.Evacuated = `{"holder":"another"}`, "zx" })
		synctest.Wait()
		if n := a.link.Calls("write") - before; n != 0 {
			t.Errorf("%d writes", n)
		}
	})
}

// TestAHandThatEmptiesTheRecordFindsTheNameBackWhileTheWorkStops: the term is over, but
// client-go would take an empty record at once, while the work still stops.
func TestAHandThatEmptiesTheRecordFindsTheNameBackWhileTheWorkStops(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.SetStopTime(3 * time.Second)
		first, _ := a.Leads()
		time.Sleep(interval + interval/2)
		s.write(func(r *locks.Record) { r.Holder, r.LeaseDuration = "", time.Second })
		took, _ := a.Loses()
		s.want("the work is told to stop", took, 0)
		synctest.Wait()
		if r := s.record(); r.Holder != "a" || r.LeaseDuration != lease {
			t.Errorf("while the work stops the record is %+v", r)
		}
		if left := first.TrustedFor(); left > 0 {
			t.Errorf("the term is trusted for %v", left)
		}
		second, took := a.Leads()
		s.want("a leads again", took, 3*time.Second)
		if second.Token <= first.Token || second.Cause != status.CauseReclaimed {
			t.Errorf("after %+v came %+v", first, second)
		}
	})
}

// TestAReleasedRecordIsNotTakenBackWhileTheWorkStops: somebody who writes the token on it
// wants it to be free.
func TestAReleasedRecordIsNotTakenBackWhileTheWorkStops(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.SetStopTime(3 * time.Second)
		a.Leads()
		time.Sleep(interval + interval/2)
		s.write(func(r *locks.Record) {
			r.Holder, r.LeaseDuration, r.RenewTime, r.Details.Released = "", time.Second, time.Now(), r.Details.Token
		})
		a.Loses()
		time.Sleep(2 * time.Second)
		if r := s.record(); r.Holder != "" {
			t.Errorf("the holder is %q", r.Holder)
		}
	})
}

// unmendable marks every record as partial, whatever is written.
type unmendable struct{ locks.Lock }

func (l unmendable) Read(ctx context.Context) (locks.Snapshot, error) {
	s, err := l.Lock.Read(ctx)
	s.Partial = s.Version.Exists()
	return s, err
}

func (l unmendable) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	s, err := l.Lock.Write(ctx, base, r)
	s.Partial = s.Version.Exists()
	return s, err
}

func (l unmendable) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	between, ended := make(chan locks.Event), make(chan error, 1)
	go func() { ended <- l.Lock.Watch(ctx, from, between) }()
	for {
		select {
		case e := <-between:
			e.Snapshot.Partial = e.Snapshot.Version.Exists()
			select {
			case events <- e:
			case <-ctx.Done():
			}
		case err := <-ended:
			return err
		}
	}
}

// halfReleased is a lock of two records, one of which is gone. The first release gets no
// answer.
type halfReleased struct {
	unmendable
	tried *atomic.Bool
}

func (l halfReleased) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	if r.Holder == "" && !l.tried.Swap(true) {
		return locks.Snapshot{}, errors.New("no answer")
	}
	return l.unmendable.Write(ctx, base, r)
}

func TestS5AReleaseThatMayHaveHalfLandedIsNotRepeatedWhereThatHalfIsGone(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a", func(c *election.Config) {
			c.Lock = halfReleased{unmendable{c.Lock}, &atomic.Bool{}}
		})
		a.Leads()
		time.Sleep(interval + time.Millisecond)
		a.Stop()
		if err := a.Wait(); err != nil {
			t.Errorf("Run: %v", err)
		}
		if r := s.record(); r.Holder != "a" {
			t.Errorf("the holder is %q", r.Holder)
		}
	})
}

// TestWhatNoWriteMendsIsWrittenNoMoreThanRenewalsAre: admission may remove an annotation
// from each of them.
func TestWhatNoWriteMendsIsWrittenNoMoreThanRenewalsAre(t *testing.T) {
	for name, lock := range map[string]func(locks.Lock) locks.Lock{
		"it stays partial":        func(l locks.Lock) locks.Lock { return unmendable{l} },
		"annotations are removed": func(l locks.Lock) locks.Lock { return stripping{l} },
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				a := s.start("a", func(c *election.Config) { c.Lock = lock(slowed{c.Lock}) })
				a.Leads()
				before := a.link.Calls("write")
				time.Sleep(time.Minute)
				if n := a.link.Calls("write") - before; n < 29 || n > 31 {
					t.Errorf("%d writes in a minute", n)
				}
				a.Idles()
			})
		})
	}
}

// slowed is a lock whose requests take a little while, so that a loop of them takes some
// time.
type slowed struct{ locks.Lock }

func (l slowed) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	time.Sleep(20 * time.Millisecond)
	return l.Lock.Write(ctx, base, r)
}

func TestAHandThatNeverRestsIsAnsweredOnceASecond(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		before := a.link.Calls("write")
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			time.Sleep(131700 * time.Microsecond) // no part of a second: no two writes meet
			s.write(func(r *locks.Record) { r.LeaseDuration = time.Second })
			synctest.Wait()
		}
		if n := a.link.Calls("write") - before; n > 61 {
			t.Errorf("%d writes in a minute", n)
		}
		a.Stays()
	})
}
