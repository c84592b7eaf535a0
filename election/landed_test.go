// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

// changes returns what an event changes about a candidate at once.
func (s *stage) changes(c *seat, event func()) []status.Change {
	synctest.Wait()
	news := c.Subscribe(s.T.Context())
	event()
	return changes(pending(news))
}

func TestS8ALateAnswerToAnAcquisitionThatAnotherFollowedWinsNothing(t *testing.T) {
	names := func(holder string) func(*stage) {
		return func(s *stage) {
			s.write(func(r *locks.Record) { r.Holder, r.RenewTime = holder, time.Now() })
		}
	}
	changesNonce := func(s *stage) {
		s.write(func(r *locks.Record) { r.RenewTime, r.Details.Nonce = time.Now(), "another" })
	}
	for what, test := range map[string]struct {
		happens []func(*stage)
		begins  bool
	}{
		"another took the lock":                        {happens: []func(*stage){names("x")}},
		"another took it, and somebody deleted it":     {happens: []func(*stage){names("x"), (*stage).deletes}},
		"another took it, and somebody emptied it":     {happens: []func(*stage){names("x"), names("")}},
		"another process of this identity took it":     {happens: []func(*stage){changesNonce}},
		"somebody deleted it, and nobody had taken it": {happens: []func(*stage){(*stage).deletes}, begins: true},
	} {
		t.Run(what, func(t *testing.T) {
			scenario(t, func(s *stage) {
				answers := make(chan struct{})
				a := s.start("a", func(c *election.Config) { c.Lock = &deaf{Lock: c.Lock, answers: answers} })
				for _, happens := range test.happens {
					happens(s)
					synctest.Wait()
				}
				time.Sleep(deadline / 2) // by then a read has shown it
				got := s.changes(a, func() { close(answers) })
				if slices.Contains(got, status.ChangeLeading) != test.begins || !test.begins && len(got) > 0 {
					t.Errorf("it publishes %v", got)
				}
				if !test.begins {
					time.Sleep(interval)
					a.Idles()
				}
			})
		})
	}
}

// TestALockIsTakenBackThoughEachAnswerIsOvertaken, as with an API server that takes more
// than half a RenewDeadline for each: an answer that was overtaken counts, too.
func TestALockIsTakenBackThoughEachAnswerIsOvertaken(t *testing.T) {
	short := election.Timing{LeaseDuration: 6 * time.Second, RenewDeadline: 4 * time.Second, RenewInterval: time.Second}
	for _, timing := range []election.Timing{{}, longTiming, short} {
		t.Run(fmt.Sprint(timing.RenewDeadline), func(t *testing.T) {
			scenario(t, func(s *stage) {
				a := s.leader("a", func(c *election.Config) { c.Timing = timing })
				deadline := a.Timing().RenewDeadline
				a.link.Set(lockstest.Fault{Delay: deadline * 3 / 10})
				a.Loses()
				s.leadsWithin(a, 2*deadline)
				a.link.Set(whole)
			})
		})
	}
}

// deaf is a lock whose first write is answered only when answers is closed.
type deaf struct {
	locks.Lock
	answers chan struct{}
	writes  atomic.Int64
}

func (l *deaf) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	s, err := l.Lock.Write(ctx, base, r)
	if l.writes.Add(1) == 1 {
		<-l.answers
	}
	return s, err
}

// TestS6AReadThatWasSentBeforeTheLastWriteSettlesNothing: it cannot show whether that write
// has landed.
func TestS6AReadThatWasSentBeforeTheLastWriteSettlesNothing(t *testing.T) {
	scenario(t, func(s *stage) {
		var plays atomic.Bool
		var writes, reads atomic.Int64
		// The first read is answered while the third overtakes the second write.
		answers := []time.Duration{interval * 5 / 2, 0, interval * 3 / 4}
		a := s.leader("a", altering(func(l *altered) {
			l.read = func(ctx context.Context) (locks.Snapshot, error) {
				s, err := l.Lock.Read(ctx)
				if n := reads.Add(1); plays.Load() && int(n) <= len(answers) {
					time.Sleep(answers[n-1])
				}
				return s, err
			}
			l.write = func(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
				n := writes.Add(1)
				if !plays.Load() || n > 2 {
					return l.Lock.Write(ctx, base, r)
				}
				if n == 2 { // it lands, and the first does not; neither is answered
					_, _ = l.Lock.Write(ctx, base, r)
				}
				<-ctx.Done()
				return locks.Snapshot{}, ctx.Err()
			}
		}))
		writes.Store(0)
		reads.Store(0)
		plays.Store(true)
		time.Sleep(4*interval + interval*5/8)
		synctest.Wait()
		if n, r := writes.Load(), reads.Load(); n != 2 || r != 3 {
			t.Errorf("%d writes and %d reads", n, r)
		}
		time.Sleep(interval/8 + interval/50) // the third read shows the second write, and the next is due
		synctest.Wait()
		if n := writes.Load(); n != 3 {
			t.Errorf("%d writes", n)
		}
		a.Stays()
	})
}

// late is a lock whose writes take longer than a read waits for while it is on, and whose reads take a
// second. Answers to writes get lost.
func late(on *atomic.Bool, acquisitions *atomic.Int64) func(*election.Config) {
	return altering(func(l *altered) {
		l.read = func(ctx context.Context) (locks.Snapshot, error) {
			s, err := l.Lock.Read(ctx)
			if on.Load() {
				time.Sleep(time.Second)
			}
			return s, err
		}
		l.write = func(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
			if r.Details.Token == 0 {
				acquisitions.Add(1)
			}
			if !on.Load() {
				return l.Lock.Write(ctx, base, r)
			}
			time.Sleep(interval + time.Second/2)
			_, _ = l.Lock.Write(ctx, base, r)
			<-ctx.Done()
			return locks.Snapshot{}, ctx.Err()
		}
	})
}

// TestS6AWatchThatShowsARenewalConfirmsNothing, although right after it comes the answer to
// a read that was made before.
func TestS6AWatchThatShowsARenewalConfirmsNothing(t *testing.T) {
	scenario(t, func(s *stage) {
		var on atomic.Bool
		a := s.start("a", late(&on, &atomic.Int64{}))
		term, _ := a.Leads()
		on.Store(true)
		passes := 2*interval + time.Second + time.Millisecond // until the answer to the read that overtakes it
		time.Sleep(passes)
		if r := s.record(); r.Details.Token == 0 {
			t.Error("no renewal has landed")
		}
		s.want("trust ends", term.TrustedFor(), deadline-passes)
		on.Store(false)
	})
}

// TestS6AnAcquisitionThatAWatchShowsIsConfirmedNotRepeated: right after the watch has shown it
// comes the answer to a read that was made before. A second acquisition would land on the first.
func TestS6AnAcquisitionThatAWatchShowsIsConfirmedNotRepeated(t *testing.T) {
	scenario(t, func(s *stage) {
		var on atomic.Bool
		var acquisitions atomic.Int64
		on.Store(true)
		a := s.start("a", late(&on, &acquisitions))
		read, overtaken := time.Second, interval+time.Second
		s.leads(a, read+overtaken+read)
		if n := acquisitions.Load(); n != 1 {
			t.Errorf("it took %d acquisitions", n)
		}
		on.Store(false)
	})
}

// admitted gives a candidate a lock whose server changes what is written. As [locks.Lock] wants it, such a write is not
// acknowledged.
func admitted(change *atomic.Pointer[func(*locks.Record)]) func(*election.Config) {
	return altering(func(l *altered) {
		l.write = func(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
			f := change.Load()
			if f == nil {
				return l.Lock.Write(ctx, base, r)
			}
			(*f)(&r)
			s, err := l.Lock.Write(ctx, base, r)
			return s, errors.Join(err, errors.New("the answer does not show this write"))
		}
	})
}

// TestS7AnAnswerThatShowsAnotherHolderEndsTheTermAtOnce, or one that shows none, also while no read and no
// watch shows it.
func TestS7AnAnswerThatShowsAnotherHolderEndsTheTermAtOnce(t *testing.T) {
	for _, holder := range []string{"thief", ""} {
		scenario(t, func(s *stage) {
			var admission atomic.Pointer[func(*locks.Record)]
			a := s.leader("a", admitted(&admission))
			a.link.Set(lockstest.Fault{Mute: true, LoseReads: true})
			change := func(r *locks.Record) { r.Holder = holder }
			admission.Store(&change)
			s.loses(a, interval, election.ErrLost)
			admission.Store(nil)
		})
	}
}

// TestS1AReadOfALeaseThatAdmissionMadeShorterRenewsNoTerm: others do not wait for as long as the holder
// would trust the write.
func TestS1AReadOfALeaseThatAdmissionMadeShorterRenewsNoTerm(t *testing.T) {
	scenario(t, func(s *stage) {
		var admission atomic.Pointer[func(*locks.Record)]
		a := s.leader("a", admitted(&admission))
		shorter := func(r *locks.Record) {
			time.Sleep(time.Millisecond) // so that time goes on, though a candidate never pauses
			r.LeaseDuration = lease - 3*time.Second
		}
		admission.Store(&shorter)
		took, cause := a.Loses()
		if !errors.Is(cause, election.ErrLost) || took > timing.DefaultRenewDeadline {
			t.Errorf("the term ended after %v with %v", took, cause)
		}
		time.Sleep(time.Minute)
		a.Idles()
		admission.Store(nil)
		a.Leads()
	})
}

// TestConflictsThatNothingExplainsAreNotMetInHaste: a server, a quota or a
// webhook may answer so for as long as it likes, to a leader and to a candidate.
func TestConflictsThatNothingExplainsAreNotMetInHaste(t *testing.T) {
	nothing := func(err error) func(locks.Snapshot) (locks.Snapshot, error) {
		return func(locks.Snapshot) (locks.Snapshot, error) { return locks.Snapshot{}, err }
	}
	conflict := nothing(locks.ErrConflict)
	each(t, map[string]answers{
		"to writes":                      {conflict, asItIs, 120},
		"to writes of what is not there": {conflict, nothing(nil), 120},
		"and reads are canceled":         {conflict, nothing(context.Canceled), 120},
		"to requests":                    {conflict, conflict, 120},
	}, doNotHurry)
}

// TestAnswersThatNeitherAcknowledgeNorRefuseAreNotMetInHaste: a cache before the server gives them at once, and admission
// may undo each write.
func TestAnswersThatNeitherAcknowledgeNorRefuseAreNotMetInHaste(t *testing.T) {
	each(t, map[string]answers{"to writes": {
		writes: func(s locks.Snapshot) (locks.Snapshot, error) {
			return s, errors.New("the answer does not show this write")
		},
		reads: asItIs,
		most:  60,
	}}, doNotHurry)
}

// answers are what a server answers, that stores nothing, by what is there.
type answers struct {
	writes, reads func(there locks.Snapshot) (locks.Snapshot, error)
	most          int64 // requests in a minute
}

func asItIs(there locks.Snapshot) (locks.Snapshot, error) { return there, nil }

// doNotHurry plays a leader that gets such answers for a minute, and becomes a candidate.
func doNotHurry(s *stage, gets answers) {
	var denies atomic.Bool
	var count atomic.Int64
	enough := func(ctx context.Context) { // stops a candidate that never pauses
		if count.Add(1) > 10_000 {
			<-ctx.Done()
		}
	}
	a := s.leader("a", altering(func(l *altered) {
		l.read = func(ctx context.Context) (locks.Snapshot, error) {
			enough(ctx)
			now, err := l.Lock.Read(ctx)
			if denies.Load() {
				return gets.reads(now)
			}
			return now, err
		}
		l.write = func(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
			if enough(ctx); denies.Load() {
				return gets.writes(s.read())
			}
			return l.Lock.Write(ctx, base, r)
		}
	}))
	count.Store(0)
	denies.Store(true)
	time.Sleep(time.Minute)
	if n := count.Load(); n > gets.most {
		s.T.Errorf("%d requests in a minute", n)
	}
	denies.Store(false)
	a.Leads()
}
