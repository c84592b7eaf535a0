// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// TestS2TimesInARecordCountForNothing: a candidate that has just started waits for a whole lease,
// whatever the record says about when it was written.
func TestS2TimesInARecordCountForNothing(t *testing.T) {
	old := func(r *locks.Record) {
		*r = locks.Record{Holder: "x", LeaseDuration: lease, RenewTime: time.Now().Add(-time.Hour).Round(0)}
	}
	for name, record := range map[string]func(*locks.Record){
		"old":                        old,
		"fresh":                      func(r *locks.Record) { old(r); r.RenewTime = time.Now() },
		"from the future":            func(r *locks.Record) { old(r); r.RenewTime = time.Now().Add(time.Hour) },
		"by a clock that is not set": func(r *locks.Record) { old(r); r.RenewTime = time.Unix(0, 0) },
		"no time":                    func(r *locks.Record) { old(r); r.RenewTime = time.Time{} },
		"a younger term":             func(r *locks.Record) { old(r); r.AcquireTime = time.Now() },
		"cleared by another": func(r *locks.Record) {
			old(r)
			r.Holder, r.Details = "", locks.Details{Holder: "x", Token: 3}
		},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				s.write(record)
				_, took := s.start("a").Leads()
				s.want("a leads", took, lease)
			})
		})
	}
}

func TestALeaderThatRenewsIsNotRobbedByAColdStart(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		for i := range 20 {
			time.Sleep(777 * time.Millisecond)
			s.start(fmt.Sprint("b", i)).Idles()
		}
		a.link.Set(cut)
		time.Sleep(deadline + 4*time.Second) // its work may just have stopped
		s.start("c").Idles()
	})
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
