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

	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

func TestALiveLeaderMendsAtOnceWhatAHandDoesToItsRecord(t *testing.T) {
	each(t, map[string]func(*locks.Record){
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
	}, func(s *stage, hand func(*locks.Record)) {
		a := s.start("a")
		term, _ := a.Leads()
		time.Sleep(interval + interval/2)
		before := s.record()
		harmed := s.write(hand)
		synctest.Wait()
		now := s.record()
		before.RenewTime = time.Now()
		if now != before || now == harmed.Record {
			s.T.Errorf("right after the hand the record is\n%+v, want\n%+v", now, before)
		}
		time.Sleep(time.Minute)
		a.Stays()
		if term.TrustedFor() <= 0 {
			s.T.Error("the term is no longer trusted")
		}
	})
}

// TestAReleasedRecordIsNotTakenBackWhileTheWorkStops: somebody who writes the token on it
// wants it to be free.
func TestAReleasedRecordIsNotTakenBackWhileTheWorkStops(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		a.SetStopTime(3 * time.Second)
		time.Sleep(interval + interval/2)
		s.write(func(r *locks.Record) {
			r.Holder, r.LeaseDuration, r.RenewTime, r.Details.Released = "", time.Second, time.Now(), r.Details.Token
		})
		a.Loses()
		time.Sleep(2 * time.Second)
		s.holds("while the work stops", "")
	})
}

// TestS5AReleaseThatMayHaveHalfLandedIsNotRepeatedWhereThatHalfIsGone, on a lock of two records: the first release
// gets no answer.
func TestS5AReleaseThatMayHaveHalfLandedIsNotRepeatedWhereThatHalfIsGone(t *testing.T) {
	scenario(t, func(s *stage) {
		var tried atomic.Bool
		a := s.leader("a", altering(func(l *altered) {
			partial(l)
			l.write = func(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
				if r.Holder == "" && !tried.Swap(true) {
					return locks.Snapshot{}, errors.New("no answer")
				}
				return l.Lock.Write(ctx, base, r)
			}
		}))
		time.Sleep(interval + time.Millisecond)
		a.Stop()
		s.ends(a)
		s.holds("after its end", "a")
	})
}

// TestWhatNoWriteMendsIsWrittenNoMoreThanRenewalsAre: admission may remove an annotation
// from each of them.
func TestWhatNoWriteMendsIsWrittenNoMoreThanRenewalsAre(t *testing.T) {
	each(t, map[string]func(*altered){"it stays partial": partial, "annotations are removed": stripping}, func(s *stage, lock func(*altered)) {
		a := s.leader("a", altering(lock))
		a.link.Set(lockstest.Fault{Delay: 10 * time.Millisecond}) // so that a loop of writes takes some time
		before := a.link.Calls("write")
		time.Sleep(time.Minute)
		if n := a.link.Calls("write") - before; n < 29 || n > 31 {
			s.T.Errorf("%d writes in a minute", n)
		}
		a.Idles()
		a.link.Set(whole)
	})
}

func TestAHandThatNeverRestsIsAnsweredOnceASecond(t *testing.T) {
	led(t, func(s *stage, a *seat) {
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

// TestS3AHandThatEmptiesTheRecordAgainFindsTheNameBackAgain: for as long as the work stops, client-go
// would take an empty record. The leader answers each hand, and one that never rests only now and then.
func TestS3AHandThatEmptiesTheRecordAgainFindsTheNameBackAgain(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		a.SetStopTime(3 * time.Second)
		time.Sleep(interval / 2)
		before := a.link.Calls("write")
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(7700 * time.Microsecond) { // no two writes meet
			s.write(emptied)
			synctest.Wait()
		}
		time.Sleep(interval / 2)
		synctest.Wait()
		s.holds("while the work stops", "a")
		if n := a.link.Calls("write") - before; n < 3 || n > 10 { // the hand emptied it 260 times
			t.Errorf("the name was put back %d times", n)
		}
	})
}

// TestS3AHandThatEmptiesTheRecordFindsTheNameBack: the holder knows its own term by what is left of it.
func TestS3AHandThatEmptiesTheRecordFindsTheNameBack(t *testing.T) {
	for name, hand := range map[string]func(*locks.Record){
		"the holder and the lease": func(r *locks.Record) { r.Holder, r.LeaseDuration = "", time.Second },
		"all but the annotations":  func(r *locks.Record) { *r = locks.Record{Details: r.Details} },
	} {
		for _, stops := range []time.Duration{0, 3 * time.Second} {
			t.Run(name+", the work stops after "+stops.String(), func(t *testing.T) {
				scenario(t, func(s *stage) {
					a := s.start("a")
					a.SetStopTime(stops)
					first, _ := a.Leads()
					b := s.start("b")
					time.Sleep(interval + interval/2)
					s.write(hand)
					s.loses(a, 0)
					synctest.Wait()
					if r := s.record(); r.Holder != "a" || r.LeaseDuration != lease {
						t.Errorf("while the work stops the record is %+v", r)
					}
					second := s.leads(a, stops)
					if second.Token <= first.Token || second.Cause != status.CauseReclaimed {
						t.Errorf("after %+v came %+v", first, second)
					}
					b.Idles()
				})
			})
		}
	}
}

// TestS3AnEmptyRecordThatSaysNothingOfItsTermIsNotReclaimed: a candidate of another program may have had the
// lock, and may go on.
func TestS3AnEmptyRecordThatSaysNothingOfItsTermIsNotReclaimed(t *testing.T) {
	each(t, map[string]func(*locks.Record){
		"nothing is left":  replaced,
		"no nonce":         func(r *locks.Record) { r.Holder, r.Details.Nonce = "", "" },
		"of a later term":  func(r *locks.Record) { *r = locks.Record{Details: r.Details, Transitions: r.Transitions + 1} },
		"another's traces": is(locks.Record{Details: locks.Details{Holder: "z", Token: 1}}),
	}, func(s *stage, hand func(*locks.Record)) {
		a := s.leader("a")
		a.SetStopTime(3 * time.Second)
		time.Sleep(interval + time.Millisecond)
		s.write(hand)
		a.Loses()
		time.Sleep(2 * time.Second)
		s.holds("while the work stops", "")
		s.leadsNotBefore(a, lease-2*time.Second)
	})
}

// TestS3TheNameGoesBackByCompareAndSwap: whoever takes the emptied record first has it.
func TestS3TheNameGoesBackByCompareAndSwap(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		a.SetStopTime(3 * time.Second)
		time.Sleep(interval + interval/2)
		a.link.Set(lockstest.Fault{Delay: 200 * time.Millisecond})
		s.write(emptied)
		a.Loses()
		time.Sleep(100 * time.Millisecond)
		s.write(func(r *locks.Record) {
			*r = locks.Record{Holder: "client-go", LeaseDuration: lease, RenewTime: time.Now(), Transitions: 1}
		})
		took := time.Now()
		time.Sleep(lease - interval)
		s.holds("then", "client-go")
		a.Leads()
		if led := time.Since(took); led < lease {
			t.Errorf("a leads %v after another took the lock", led)
		}
	})
}
