// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"testing"
	"time"

	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

// wantPrevious checks who led before, by the record, and for how long nobody led then.
func (s *stage) wantPrevious(when, holder, cause string, nobodyLed time.Duration) {
	s.T.Helper()
	r := s.record()
	p := r.Previous
	if p.Holder != holder || p.Cause != cause || p.Until.IsZero() != (nobodyLed < 0) || nobodyLed >= 0 && (r.AcquireTime.Sub(p.Until)-nobodyLed).Abs() > time.Millisecond {
		s.T.Errorf("%s: before led %+v, and the lock was acquired at %v; want %q, %s, %v", when, p, r.AcquireTime, holder, cause, nobodyLed)
	}
}

// TestTheRecordSaysWhoLedBefore, until the next acquisition: renewals and answers that are lost change
// nothing.
func TestTheRecordSaysWhoLedBefore(t *testing.T) {
	const unknown = -1
	scenario(t, func(s *stage) {
		a := s.candidate("a")
		a.link.Set(lockstest.Fault{LoseAnswers: true})
		a.Start()
		time.Sleep(time.Second)
		a.link.Set(lockstest.Fault{})
		a.Leads()
		s.wantPrevious("a leads at last", "", "absent", unknown)
		b := s.start("b")
		time.Sleep(interval + time.Second)
		a.Stop()
		b.Leads()
		s.wantPrevious("a gave up", "a", "released", 0)
		time.Sleep(10*interval + time.Millisecond)
		s.wantPrevious("b leads on", "a", "released", 0)
		c := s.start("c")
		time.Sleep(interval)
		b.link.Set(cut)
		c.Leads()
		s.wantPrevious("b fell silent", "b", "expired", lease)
		c.Stop()
		took := time.Now()
		s.write(func(r *locks.Record) {
			r.Holder, r.LeaseDuration, r.AcquireTime, r.RenewTime = "client-go", lease, took, took
		})
		s.start("d").Leads()
		s.wantPrevious("d waited for what it found", "client-go", "expired", unknown)
	})
}
