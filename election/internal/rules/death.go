// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"path"

	"github.com/zonelect/zonelect/locks"
)

// tenure identifies a term by what all of its renewals have in common.
type tenure struct {
	holder      string
	acquired    int64 // in microseconds, as a record has it
	transitions int32
}

// tenureOf returns the tenure that a record belongs to.
func tenureOf(r locks.Record) tenure {
	return tenure{r.Holder, r.AcquireTime.UnixMicro(), r.Transitions}
}

// isAnother reports whether a snapshot's record is of another term than the one that this process
// found when it started. Its predecessor in the container can hold only that one: if it is seen to
// hold another, somebody put an old record back, and a candidate that held the lock since may live.
func (o *Observer) isAnother(s locks.Snapshot, first bool) bool {
	return o.another || o.startOver || !first && (o.uid != s.Version.UID || tenureOf(s.Record) != tenureOf(o.renewal))
}

// isEarlier reports whether a snapshot's record is of an earlier term than the one seen before: somebody
// put it back.
func (o *Observer) isEarlier(s locks.Snapshot) bool {
	was, token := o.renewal, s.Record.Details.Token
	return o.exists && (o.uid == s.Version.UID && s.Record.Transitions < was.Transitions || token != 0 && token < was.Details.Token)
}

// Follow notes the process lock of this process, see locks.Details.ProcessLock.
func (o *Observer) Follow(processLock string) { o.processLock = processLock }

// died reports whether the lock's holder has ended, because this process has its process lock. The
// details must be believed (S11), and only the holder's lease may keep others out: what is left of a
// partial record may come from somebody else who lives, and a holder that waits may wait for somebody
// else who lives.
//
// A renewal that is seen later does not refute it: the dead process sent it before it died. It only
// makes the takeover's compare-and-swap fail, which is then repeated on the newest version.
func (o *Observer) died() bool {
	r := o.newest.Record
	if !o.newest.Version.Exists() || o.newest.Partial || o.another ||
		r.Holder == "" || r.Holder == o.self.Identity || r.Details.Holder != r.Holder || r.Details.Waits != "" {
		return false
	}
	mine, process := path.Split(o.processLock)
	theirs, ended := path.Split(r.Details.ProcessLock)
	return mine != "" && mine == theirs && process != ended
}
