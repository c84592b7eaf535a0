// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"time"

	"github.com/zonelect/zonelect/internal/history"
	"github.com/zonelect/zonelect/locks"
)

// HistoryWith is the history of the lock once next, which is sent at now, has taken it. It says
// of the terms before what the record says that next replaces: the token of the last one, and
// the holder if that is of another program. repeats says that the record is of an acquisition of
// the same candidacy, whose answer was lost: no term has begun with it.
func (o *Observer) HistoryWith(next locks.Record, free Freeing, repeats bool, now time.Time) string {
	terms := o.history()
	if repeats {
		terms = history.WithoutLast(terms)
	}
	note := history.Term{
		Acquired: next.AcquireTime, Holder: next.Holder, Zone: next.Details.Zone, Cause: string(free.Cause),
	}
	if !free.Late && !free.Life.IsZero() {
		nobodyLed := now.Sub(free.Life)
		note.NobodyLed = &nobodyLed
	}
	return history.With(terms, note)
}

// history is what the last record tells of the terms. If nobody holds the lock any more, the
// record before tells who did. That record may be of an earlier term than the last one in the
// history, which this candidate has not seen.
func (o *Observer) history() string {
	last, prior := o.renewal, o.prior
	if last.Holder != "" || prior.Holder == "" {
		return history.Of(last)
	}
	if newest, known := history.Last(last.History); !known || prior.AcquireTime.After(newest.Acquired) {
		prior.History = last.History
		last.History = history.Of(prior)
	}
	return history.Of(last)
}
