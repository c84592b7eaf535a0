// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
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
