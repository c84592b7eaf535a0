// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/memory"
)

const skew = 2 * time.Second

func skewed(c *election.Config) { c.MaxClockSkew = skew }

func TestAStaleRecordAtTheStartIsWaitedForByItsOwnTimesUpToMaxClockSkew(t *testing.T) {
	const most = lease + skew + time.Second // after RenewTime
	for name, test := range map[string]struct {
		age  time.Duration
		want time.Duration
	}{
		"old":                        {time.Hour, 0},
		"just old enough":            {most, 0},
		"not quite":                  {most - time.Second, time.Second},
		"fresh":                      {0, lease},
		"within the skew":            {skew, lease},
		"from the future":            {-time.Hour, lease},
		"by a clock that is not set": {30 * 365 * 24 * time.Hour, lease},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				s.write(func(r *locks.Record) {
					*r = locks.Record{Holder: "x", LeaseDuration: lease, RenewTime: time.Now().Add(-test.age).Round(0)}
				})
				term, took := s.start("a", skewed).Leads()
				s.want("a leads", took, test.want)
				if term.Cause != status.CauseExpired || term.Previous != "x" {
					t.Errorf("the term is %+v", term)
				}
			})
		})
	}
}

func TestTimesInARecordCountForNothingElse(t *testing.T) {
	old := func(r *locks.Record) {
		*r = locks.Record{Holder: "x", LeaseDuration: lease, RenewTime: time.Now().Add(-time.Hour).Round(0)}
	}
	for name, test := range map[string]struct {
		change func(*election.Config)
		record func(*locks.Record)
	}{
		"without MaxClockSkew": {func(*election.Config) {}, old},
		"no time":              {skewed, func(r *locks.Record) { old(r); r.RenewTime = time.Time{} }},
		"a younger term":       {skewed, func(r *locks.Record) { old(r); r.AcquireTime = time.Now() }},
		"cleared by another": {skewed, func(r *locks.Record) {
			old(r)
			r.Holder, r.Details = "", locks.Details{Holder: "x", Token: 3}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				s.write(test.record)
				_, took := s.start("a", test.change).Leads()
				s.want("a leads", took, lease)
			})
		})
	}
}

func TestOnlyTheFirstRecordIsWaitedForByItsOwnTimes(t *testing.T) {
	scenario(t, func(s *stage) {
		write := func(age time.Duration) {
			s.write(func(r *locks.Record) {
				*r = locks.Record{Holder: "x", LeaseDuration: lease, RenewTime: time.Now().Add(-age).Round(0)}
			})
		}
		write(5 * time.Second)
		a := s.start("a", skewed)
		time.Sleep(time.Second)
		write(time.Hour) // by a leader whose clock is wrong
		_, took := a.Leads()
		s.want("a leads", took, lease)
	})
}

func TestALeaderThatRenewsIsNotRobbedByAColdStart(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a", skewed)
		a.Leads()
		for i := range 20 {
			time.Sleep(777 * time.Millisecond)
			s.start(fmt.Sprint("b", i), skewed).Idles()
		}
		a.link.Set(cut)
		time.Sleep(deadline + 4*time.Second) // its work may just have stopped
		s.start("c", skewed).Idles()
	})
}

func TestANegativeMaxClockSkewIsRefused(t *testing.T) {
	_, err := election.New(election.Config{
		Lock: memory.New("lock"), Candidate: locks.Candidate{Identity: "a"}, MaxClockSkew: -1,
	})
	if !errors.Is(err, election.ErrConfig) {
		t.Errorf("New: %v", err)
	}
}

// offset is a lock as seen by a process whose wall clock is ahead.
type offset struct {
	locks.Lock
	ahead time.Duration
}

// seen is what that process reads as the times in a record.
func (o offset) seen(s locks.Snapshot) locks.Snapshot {
	if s.Version.Exists() {
		s.Record = shifted(s.Record, -o.ahead)
	}
	return s
}

func shifted(r locks.Record, by time.Duration) locks.Record {
	r.AcquireTime, r.RenewTime = r.AcquireTime.Round(0).Add(by), r.RenewTime.Round(0).Add(by)
	terms, _ := r.History.Parse()
	for i := range terms {
		terms[i].Acquired = terms[i].Acquired.Add(by)
	}
	r.History = locks.FormatHistory(terms)
	return r
}

func (o offset) Read(ctx context.Context) (locks.Snapshot, error) {
	s, err := o.Lock.Read(ctx)
	return o.seen(s), err
}

func (o offset) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	s, err := o.Lock.Write(ctx, base, shifted(r, o.ahead))
	return o.seen(s), err
}

func (o offset) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	between, ended := make(chan locks.Event), make(chan error, 1)
	go func() { ended <- o.Lock.Watch(ctx, from, between) }()
	for {
		select {
		case e := <-between:
			e.Snapshot = o.seen(e.Snapshot)
			select {
			case events <- e:
			case <-ctx.Done():
			}
		case err := <-ended:
			return err
		}
	}
}
