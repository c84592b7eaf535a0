// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
)

// verifying is the state in which this candidate holds a lock whose record it created where
// there was none. Somebody else may have had the lock before and may still lead.
type verifying struct{ *leadership }

func (s verifying) proceed() time.Time {
	return s.keep(func(now time.Time) time.Time { return rules.Earliest(s.yieldIfUnwanted(now), s.verify(now)) })
}

// startVerifying keeps the lock, and lets nothing begin yet.
func (l *leadership) startVerifying() {
	l.unverified = true
	l.enter(verifying{l})
	l.report.adopting(l.term, true)
}

// verify goes on once nobody else can lead, and returns when to look again at the
// latest.
func (l *leadership) verify(now time.Time) time.Time {
	if l.cause != nil {
		return now.Add(time.Hour)
	}
	if l.observer.Unproven(now) {
		l.report.waiting(rules.PastUnknown)
		return l.observer.ProvenAt()
	}
	l.unverified = false
	l.report.waiting("")
	l.startAdoption()
	return now.Add(time.Hour)
}
