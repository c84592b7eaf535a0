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
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
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
	led(t, func(s *stage, a *seat) {
		time.Sleep(interval + interval/2)
		before := a.link.Calls("write")
		s.write(func(r *locks.Record) { r.Details.Request, r.Evacuated = `{"holder":"another"}`, "zx" })
		synctest.Wait()
		if n := a.link.Calls("write") - before; n != 0 {
			t.Errorf("%d writes", n)
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

// replaced is a record without everything that an object without a spec and annotations lacks.
func replaced(r *locks.Record) { *r = locks.Record{} }

// after is a lock that is written only between the steps of a hand.
type after struct {
	locks.Lock
	steps *sync.Mutex
}

func (l after) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	l.steps.Lock()
	defer l.steps.Unlock()
	return l.Lock.Write(ctx, base, r)
}

// TestS3AHandThatEmptiesTheRecordAgainFindsTheNameBackAgain: for as long as the work stops, client-go
// would take an empty record. The leader answers each hand, and one that never rests only now and then.
func TestS3AHandThatEmptiesTheRecordAgainFindsTheNameBackAgain(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.SetStopTime(3 * time.Second)
		a.Leads()
		time.Sleep(interval / 2)
		before := a.link.Calls("write")
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(7700 * time.Microsecond) { // no two writes meet
			s.write(replaced)
			synctest.Wait()
		}
		time.Sleep(interval / 2)
		synctest.Wait()
		if r := s.record(); r.Holder != "a" {
			t.Errorf("while the work stops the record is %+v", r)
		}
		if n := a.link.Calls("write") - before; n < 3 || n > 10 { // the hand emptied it 260 times
			t.Errorf("the name was put back %d times", n)
		}
	})
}

// TestS3AHandThatLeavesNothingOfTheRecordFindsTheNameBack: the holder knows its own term, whatever
// is left of it on the record.
func TestS3AHandThatLeavesNothingOfTheRecordFindsTheNameBack(t *testing.T) {
	for name, hand := range map[string]func(*stage){
		"the holder alone":    func(s *stage) { s.write(func(r *locks.Record) { r.Holder, r.LeaseDuration = "", time.Second }) },
		"replaced":            func(s *stage) { s.write(replaced) },
		"no spec any more":    func(s *stage) { s.write(func(r *locks.Record) { *r = locks.Record{Details: r.Details} }) },
		"no annotations":      func(s *stage) { s.write(func(r *locks.Record) { r.Holder, r.Details = "", locks.Details{} }) },
		"in two steps":        func(s *stage) { s.write(func(r *locks.Record) { r.Holder = "" }); s.write(replaced) },
		"in two other steps":  func(s *stage) { s.write(func(r *locks.Record) { r.Details = locks.Details{} }); s.write(replaced) },
		"no nonce, no holder": func(s *stage) { s.write(func(r *locks.Record) { r.Holder, r.Details.Nonce = "", "" }) },
		"deleted and created": func(s *stage) {
			s.lock.Delete()
			if _, err := s.lock.Write(s.T.Context(), locks.Version{}, locks.Record{}); err != nil {
				s.T.Fatal(err)
			}
		},
	} {
		for _, stops := range []time.Duration{0, 3 * time.Second} {
			t.Run(name+", the work stops after "+stops.String(), func(t *testing.T) {
				scenario(t, func(s *stage) {
					var steps sync.Mutex
					a := s.start("a", func(c *election.Config) { c.Lock = after{c.Lock, &steps} })
					a.SetStopTime(stops)
					first, _ := a.Leads()
					b := s.start("b")
					time.Sleep(interval + interval/2)
					steps.Lock()
					hand(s)
					steps.Unlock()
					took, _ := a.Loses()
					s.want("the work is told to stop", took, 0)
					synctest.Wait()
					if r := s.record(); r.Holder != "a" || r.LeaseDuration != lease {
						t.Errorf("while the work stops the record is %+v", r)
					}
					second, took := a.Leads()
					s.want("a leads again", took, stops)
					if second.Token <= first.Token || second.Cause != status.CauseReclaimed {
						t.Errorf("after %+v came %+v", first, second)
					}
					b.Idles()
				})
			})
		}
	}
}

// TestS3WhoDoesNotKnowWhatCameBeforeAnEmptyRecordDoesNotReclaimIt: nothing on the record says who
// had the lock last, so the watch must have shown it without a gap. Otherwise a candidate of
// another program may have had the lock, and may go on.
func TestS3WhoDoesNotKnowWhatCameBeforeAnEmptyRecordDoesNotReclaimIt(t *testing.T) {
	stranger := func(r *locks.Record) {
		*r = locks.Record{Holder: "client-go", LeaseDuration: lease, RenewTime: time.Now(), Transitions: r.Transitions + 1}
	}
	for name, happens := range map[string]func(*stage, *seat){
		"the watch showed another": func(s *stage, _ *seat) {
			s.write(replaced)
			s.write(stranger)
			s.write(replaced)
		},
		"the watch showed another of its name": func(s *stage, _ *seat) {
			s.write(func(r *locks.Record) { stranger(r); r.Holder = "a" })
			s.write(replaced)
		},
		"the watch is silent": func(s *stage, a *seat) {
			a.link.Set(lockstest.Fault{Mute: true})
			s.write(stranger)
			s.write(replaced)
		},
		"the watch started over": func(s *stage, a *seat) {
			a.link.Set(lockstest.Fault{Mute: true})
			s.write(stranger)
			s.lock.Expire()
			s.write(replaced)
			time.Sleep(interval) // the next renewal meets a conflict
			a.link.Set(lockstest.Fault{})
		},
		"the record says so": func(s *stage, _ *seat) {
			s.write(func(r *locks.Record) { *r = locks.Record{Transitions: r.Transitions + 1} })
		},
		"another has its traces there": func(s *stage, _ *seat) {
			s.write(func(r *locks.Record) { *r = locks.Record{Details: locks.Details{Holder: "z", Token: 1}} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				a := s.start("a")
				a.SetStopTime(3 * time.Second)
				a.Leads()
				time.Sleep(interval + time.Millisecond)
				happens(s, a)
				a.Loses()
				emptied := time.Now()
				time.Sleep(2 * time.Second)
				if r := s.record(); r.Holder != "" {
					t.Errorf("the holder is %q", r.Holder)
				}
				a.Leads()
				if took := time.Since(emptied); took < lease-interval {
					t.Errorf("a leads again after %v", took)
				}
			})
		})
	}
}

// TestS3TheNameGoesBackByCompareAndSwap: whoever takes the emptied record first has it.
func TestS3TheNameGoesBackByCompareAndSwap(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.SetStopTime(3 * time.Second)
		a.Leads()
		time.Sleep(interval + interval/2)
		a.link.Set(lockstest.Fault{Delay: 200 * time.Millisecond})
		s.write(replaced)
		a.Loses()
		time.Sleep(100 * time.Millisecond)
		s.write(func(r *locks.Record) {
			*r = locks.Record{Holder: "client-go", LeaseDuration: lease, RenewTime: time.Now(), Transitions: 1}
		})
		took := time.Now()
		time.Sleep(lease - interval)
		if r := s.record(); r.Holder != "client-go" {
			t.Errorf("the holder is %q", r.Holder)
		}
		a.Leads()
		if led := time.Since(took); led < lease {
			t.Errorf("a leads %v after another took the lock", led)
		}
	})
}
