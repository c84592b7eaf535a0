// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
)

// beating is a lock with a Renewer: something renews the record each RenewInterval, and was sent
// early before it is known to have.
type beating struct {
	locks.Lock
	early time.Duration
	off   atomic.Bool // nothing but a write renews the record
	hangs atomic.Bool
	beats atomic.Uint64
}

func (b *beating) Capabilities() locks.Capabilities { return locks.Capabilities{Renewer: b} }

// of returns a snapshot whose version counts the beats, too.
func (b *beating) of(s locks.Snapshot) locks.Snapshot {
	if s.Version.Exists() {
		s.Kept = !b.off.Load()
		s.Version = locks.Version{Number: s.Version.Number<<20 + b.beats.Load(), UID: s.Version.UID, Opaque: s}
	}
	return s
}

func (b *beating) Renew(ctx context.Context, held locks.Version) (time.Time, locks.Snapshot, error) {
	if b.off.Load() {
		return time.Time{}, locks.Snapshot{}, locks.ErrNotKept
	}
	if b.hangs.Load() {
		<-ctx.Done()
		return time.Time{}, locks.Snapshot{}, ctx.Err()
	}
	sent := time.Now().Add(interval - b.early)
	time.Sleep(interval)
	b.beats.Add(1)
	s := held.Opaque.(locks.Snapshot)
	s.Record.RenewTime = sent
	return sent, b.of(s), nil
}

func (b *beating) Read(ctx context.Context) (locks.Snapshot, error) {
	s, err := b.Lock.Read(ctx)
	return b.of(s), err
}

func (b *beating) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	if base.Exists() {
		base = base.Opaque.(locks.Snapshot).Version
	}
	s, err := b.Lock.Write(ctx, base, r)
	return b.of(s), err
}

// Watch reports nothing: all that happens is the elector's own doing.
func (b *beating) Watch(ctx context.Context, _ locks.Version, _ chan<- locks.Event) error {
	<-ctx.Done()
	return nil
}

// beatingCandidate starts a candidate whose lock has a Renewer.
func (s *stage) beatingCandidate(lock *beating, change ...func(*election.Config)) *seat {
	return s.start("a", append(change, func(c *election.Config) { lock.Lock, c.Lock = c.Lock, lock })...)
}

func TestARenewerSparesAllWritesButTheNoteOfTheTerm(t *testing.T) {
	scenario(t, func(s *stage) {
		lock := &beating{}
		a := s.beatingCandidate(lock)
		a.Leads()
		time.Sleep(time.Minute)
		if writes, beats := a.link.Calls("write"), lock.beats.Load(); writes != 2 || beats < 15 {
			t.Errorf("%d writes and %d beats in a minute", writes, beats)
		}
		a.Stays()
	})
}

func TestS1TrustInABeatCountsFromItsSending(t *testing.T) {
	for _, early := range []time.Duration{0, time.Second, interval + time.Second} {
		scenario(t, func(s *stage) {
			lock := &beating{early: early}
			a := s.beatingCandidate(lock)
			a.Leads()
			time.Sleep(time.Minute)
			before := lock.beats.Load()
			for lock.beats.Load() == before {
				time.Sleep(time.Millisecond)
			}
			lock.hangs.Store(true)
			a.link.Set(cut)
			synctest.Wait()
			s.want("trust ends", a.Elector.Term().TrustedFor().Round(time.Millisecond*2), deadline-early)
		})
	}
}

// TestARenewalThatTheEndOfATermCancelsIsNoProblem: it waited for a beat.
func TestARenewalThatTheEndOfATermCancelsIsNoProblem(t *testing.T) {
	scenario(t, func(s *stage) {
		lock := &beating{}
		a := s.beatingCandidate(lock)
		a.Leads()
		time.Sleep(10 * time.Second)
		lock.hangs.Store(true)
		time.Sleep(2 * interval)
		if at := s.changes(a, a.Stop); slices.Contains(at, status.ChangeProblem) || !slices.Contains(at, status.ChangeReleased) {
			t.Errorf("the stop reports at once %v", at)
		}
	})
}

func TestWhatARenewerDoesNotKeepIsWritten(t *testing.T) {
	scenario(t, func(s *stage) {
		lock := &beating{}
		a := s.beatingCandidate(lock)
		a.Leads()
		time.Sleep(10 * time.Second)
		lock.off.Store(true)
		before := a.link.Calls("write")
		time.Sleep(time.Minute)
		if writes := a.link.Calls("write") - before; writes < 28 || writes > 31 {
			t.Errorf("%d writes in a minute", writes)
		}
		a.Stays()
	})
}

// TestS1TrustCountsFromTheTurnOfAWrite, and no earlier: a term whose acquisition waited long would
// begin without trust.
func TestS1TrustCountsFromTheTurnOfAWrite(t *testing.T) {
	scenario(t, func(s *stage) {
		var first atomic.Bool
		a := s.candidate("a", func(c *election.Config) {
			c.Queue = func(ctx context.Context) (func(), error) {
				if first.CompareAndSwap(false, true) {
					time.Sleep(deadline - time.Second)
				}
				return func() {}, ctx.Err()
			}
		})
		a.Start()
		time.Sleep(deadline - time.Second)
		synctest.Wait()
		if left := a.Elector.Term().TrustedFor(); left != deadline {
			t.Errorf("trusted for %v, want %v", left, deadline)
		}
	})
}

func TestAWriteWhoseTurnDoesNotComeIsNotSent(t *testing.T) {
	scenario(t, func(s *stage) {
		closed := errors.New("the queue is closed")
		for why, turn := range map[error]func(context.Context) (func(), error){
			context.DeadlineExceeded: func(ctx context.Context) (func(), error) { <-ctx.Done(); return nil, context.Cause(ctx) },
			closed:                   func(context.Context) (func(), error) { return nil, closed },
		} {
			a := s.start(why.Error(), func(c *election.Config) { c.Queue = turn })
			time.Sleep(time.Minute)
			if n := a.link.Calls("write"); n != 0 {
				t.Errorf("%d writes", n)
			}
			if err := a.Status().Problem; !errors.Is(err, why) {
				t.Errorf("the problem is %v", err)
			}
		}
	})
}

// TestAWriteLeavesItsPlaceInTheQueue once it has its answer.
func TestAWriteLeavesItsPlaceInTheQueue(t *testing.T) {
	scenario(t, func(s *stage) {
		places := make(chan struct{}, 1)
		a := s.start("a", func(c *election.Config) {
			c.Queue = func(ctx context.Context) (func(), error) {
				select {
				case places <- struct{}{}:
					return func() { <-places }, nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}
		})
		a.Leads()
		time.Sleep(time.Minute)
		a.Stays()
	})
}

func TestABeatReplacesANoteWhoseTurnDoesNotCome(t *testing.T) {
	scenario(t, func(s *stage) {
		var turns atomic.Int64
		lock := &beating{}
		a := s.beatingCandidate(lock, func(c *election.Config) {
			c.Queue = func(ctx context.Context) (func(), error) {
				if turns.Add(1) == 1 { // the acquisition
					return func() {}, nil
				}
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
		})
		a.Leads()
		time.Sleep(time.Minute)
		a.Stays()
		if n := a.link.Calls("write"); n != 1 || lock.beats.Load() < 10 {
			t.Errorf("%d writes, %d beats", n, lock.beats.Load())
		}
	})
}
