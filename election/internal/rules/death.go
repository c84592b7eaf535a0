// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"time"

	"github.com/zonelect/zonelect/locks"
)

// Tenure identifies a term by what all of its renewals have in common.
type Tenure struct {
	holder      string
	acquired    int64 // in microseconds, as a record has it
	transitions int32
}

// TenureOf returns the tenure that a record belongs to.
func TenureOf(r locks.Record) Tenure {
	return Tenure{r.Holder, r.AcquireTime.UnixMicro(), r.Transitions}
}

// isDiscontinuous reports whether a snapshot's record belongs to a term that does not
// follow the one seen before, on the same object. A restored backup looks like that, and so
// does an old record that somebody put back. The holder in it may be long dead, and a
// candidate that held the lock since may live. So only time ends such a term, until the
// next term comes.
func (o *Observer) isDiscontinuous(s locks.Snapshot) bool {
	switch {
	case o.startOver:
		return true
	case !o.exists, TenureOf(s.Record) == TenureOf(o.renewal):
		return o.discontinuous
	}
	return o.uid != s.Version.UID || s.Record.Transitions <= o.most || o.isEarlier(s)
}

// isEarlier reports whether a snapshot's record is of an earlier term than the one seen before: somebody
// put it back.
func (o *Observer) isEarlier(s locks.Snapshot) bool {
	token := s.Record.Details.Token
	return o.exists && (o.uid == s.Version.UID && s.Record.Transitions < o.renewal.Transitions || token != 0 && token < o.renewal.Details.Token)
}

// Suspect returns the holder whose death would free the lock. There is one only if its
// details are believed (S11), and only its lease keeps others out. What is left of a
// partial record may come from somebody else who lives, and a holder that waits may wait
// for somebody else who lives.
func (o *Observer) Suspect() (locks.Suspect, bool) {
	r := o.newest.Record
	if !o.newest.Version.Exists() || o.newest.Partial || o.discontinuous ||
		r.Holder == "" || r.Holder == o.self.Identity || r.Details.Holder != r.Holder || r.Details.Waits != "" {
		return locks.Suspect{}, false
	}
	return locks.Suspect{Details: r.Details, Acquired: time.UnixMicro(r.AcquireTime.UnixMicro())}, true
}

// ProvenDead notes that the holder of a term is dead. The proof came at now.
func (o *Observer) ProvenDead(t Tenure, now time.Time) { o.dead, o.deadAt = t, now }

// died reports whether the lock's holder was proven dead. A renewal that is seen
// after the proof does not refute it: the dead process sent it before it died,
// and another process would have another identity (S9), or at least another
// term. It only makes the takeover's compare-and-swap fail, which is then
// repeated on the newest version.
func (o *Observer) died() bool {
	_, suspected := o.Suspect()
	return suspected && TenureOf(o.newest.Record) == o.dead
}
