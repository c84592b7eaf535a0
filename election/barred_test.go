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
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

// bars is a lock whose record is barred once it is set.
type bars struct {
	locks.Lock
	set atomic.Bool
}

const barred = "this record is for others"

func (b *bars) of(s locks.Snapshot) locks.Snapshot {
	if b.set.Load() && s.Version.Exists() {
		s.Barred = barred
	}
	return s
}

func (b *bars) Read(ctx context.Context) (locks.Snapshot, error) {
	s, err := b.Lock.Read(ctx)
	return b.of(s), err
}

func (b *bars) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	s, err := b.Lock.Write(ctx, base, r)
	return b.of(s), err
}

func (b *bars) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen, ended := make(chan locks.Event), make(chan error, 1)
	go func() { ended <- b.Lock.Watch(ctx, from, seen) }()
	for {
		select {
		case e := <-seen:
			e.Snapshot = b.of(e.Snapshot)
			select {
			case events <- e:
			case <-ctx.Done():
				return nil
			}
		case err := <-ended:
			return err
		}
	}
}

func TestNobodyCampaignsForARecordThatIsBarred(t *testing.T) {
	scenario(t, func(s *stage) {
		s.write(func(r *locks.Record) { r.Holder, r.LeaseDuration, r.RenewTime = "x", lease, time.Now() })
		lock := &bars{}
		lock.set.Store(true)
		a := s.start("a", func(c *election.Config) { lock.Lock, c.Lock = c.Lock, lock })
		time.Sleep(3 * lease)
		a.Idles()
		if got := a.Status().Waiting; got != barred {
			t.Errorf("it waits for %q", got)
		}
		lock.set.Store(false)
		s.write(func(r *locks.Record) { r.Holder = "" })
		s.write(func(r *locks.Record) { r.Holder, r.RenewTime = "x", time.Now() })
		_, took := a.Leads()
		s.want("leads", took, lease)
		if got := a.Status().Waiting; got != "" {
			t.Errorf("it leads, and waits for %q", got)
		}
	})
}

func TestALeaderStopsInGoodOrderWhenItsRecordIsBarred(t *testing.T) {
	scenario(t, func(s *stage) {
		lock := &bars{}
		a := s.start("a", func(c *election.Config) { lock.Lock, c.Lock = c.Lock, lock })
		a.Leads()
		lock.set.Store(true)
		s.write(func(r *locks.Record) { r.Evacuated = "zx" })
		if _, cause := a.Loses(); !errors.Is(cause, election.ErrWithdrawn) {
			t.Errorf("the term ended with %v", cause)
		}
		time.Sleep(time.Second)
		if r := s.record(); r.Holder != "" {
			t.Errorf("%s holds the lock", r.Holder)
		}
		time.Sleep(3 * lease)
		a.Idles()
	})
}

// TestALeaderStopsIfTheAnswerToItsRenewalSaysThatItIsBarred.
func TestALeaderStopsIfTheAnswerToItsRenewalSaysThatItIsBarred(t *testing.T) {
	scenario(t, func(s *stage) {
		lock := &bars{}
		a := s.start("a", func(c *election.Config) { lock.Lock, c.Lock = c.Lock, lock })
		a.Leads()
		a.link.Set(lockstest.Fault{Mute: true}) // else the watch says so, too
		lock.set.Store(true)
		time.Sleep(time.Hour)
		synctest.Wait()
		if a.Elector.Term().TrustedFor() > 0 {
			t.Errorf("it still leads an hour after each renewal's answer said that the record is barred")
		}
	})
}
