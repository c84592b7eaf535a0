// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"time"
)

// Guardian gives the permission without which no candidate of a Lock campaigns or leads. An
// elector asks for it before it campaigns, and again before it lets the work begin.
//
// The locks of a migration have one: it keeps out programs that do not read the record.
//
// Both methods report to the elector by calling permit. It returns at once, and only
// the last call counts. One goroutine at a time may call it.
type Guardian interface {
	// Attend runs as long as Elector.Run, and reports whether this candidate may
	// campaign. Until the first report the candidate may not. If Attend withdraws the
	// permission during a term, the elector stops the work and releases the lock. Attend
	// returns soon after ctx ends. If it returns earlier, the term ends at once, and Run
	// returns the error.
	Attend(ctx context.Context, permit func(Permission)) error

	// Adopt runs during one term, from when the candidate holds the record until
	// the work has returned, and reports when the work may begin. Meanwhile the
	// elector renews. A permission cannot be taken back: to end the term, Adopt
	// returns an error, and the work's context ends at once with a cause that wraps
	// both that error and ErrTermLost.
	//
	// When the term ends, ctx ends with the same cause. Adopt may then finish what must
	// be done before the record is released, and returns soon. If the cause is
	// ErrTermLost it must no longer write.
	Adopt(ctx context.Context, term Term, permit func(Permission)) error
}

// Term describes to a Guardian the term that it prepares.
type Term struct {
	// Holder is the identity of the candidate that holds the record.
	Holder string
	// Trust returns what TrustedFor returns. It must be safe for concurrent use.
	Trust func() time.Duration
}

// TrustedFor returns how much longer the candidate may trust the term: zero if the trust
// has run out, and for the zero Term. It is safe for concurrent use.
func (t Term) TrustedFor() time.Duration {
	if t.Trust == nil {
		return 0
	}
	return t.Trust()
}

// ErrTermLost is the cause when a term ends that the candidate did not end itself: its
// trust ran out, or somebody else has the lock. It is election.ErrLost.
var ErrTermLost = errors.New("leadership lost")

// Permission is a Guardian's answer to whether a candidate may campaign or lead.
type Permission struct {
	Granted bool
	// Why says in words what the candidate waits for, if Granted is false.
	Why string
}
