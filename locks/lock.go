// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
)

// Lock is a shared record that at most one candidate holds, with the operations
// that an elector needs. An implementation keeps no copy of the record: the caller
// passes versions back. All methods are safe for concurrent use and return soon after
// their context ends. If the context had ended before the call, Read and Write return an error
// that wraps the context's, and nothing is written.
//
// The comments on [Version], [Record] and [Event] are part of the contract. Package lockstest has
// the tests that every Lock must pass, and package memory has a Lock to begin from.
type Lock interface {
	// Read returns the current record. It is linearizable: it sees every write that anybody
	// knew of before Read was called, by an answer, a read or a watch. If there is no
	// record, it returns a Snapshot that does not exist, and no error. The Number of that
	// Snapshot may be zero.
	Read(ctx context.Context) (Snapshot, error)

	// Write replaces the record at version base, or creates the record if base
	// does not exist, and returns the new snapshot, which must show the write: its
	// holder, its times to the second, its transitions, a duration that is not shorter,
	// and a version newer than base. An answer that shows anything else acknowledges
	// nothing: Write returns an error, and the snapshot that it shows. It fails with
	// ErrConflict, having written nothing, if the record is no longer at base. base may be
	// that of a snapshot from Read, Write or Watch. After any other error the write may have
	// landed, or may still land until the context ends.
	Write(ctx context.Context, base Version, record Record) (Snapshot, error)

	// Watch sends the changes of the record after version from, in order, and blocks. A
	// watch that may leave changes out, such as one that polls, sets Gapless on no event;
	// the latest change is never left out. From the zero Version it starts with the
	// current record, if there is one. It returns nil when the watch ends by itself, which
	// every watch does after a bounded time; ErrVersionExpired when the history since from
	// is gone; and otherwise the error. When ctx ends it may return an error or nil. It
	// does not close events.
	// A watch may be late, silent or broken, so no safety rule may depend on it.
	Watch(ctx context.Context, from Version, events chan<- Event) error

	// Describe returns the lock's name. It does no I/O.
	Describe() Description

	// Capabilities returns what the lock has or needs beyond these operations, the same each
	// time. Most locks have nothing, and return the zero value. It does no I/O. A lock that
	// wraps another one passes on what the other one has.
	Capabilities() Capabilities
}

// Capabilities is what a [Lock] has or needs beyond its operations. The zero value is nothing.
type Capabilities struct {
	// Guardian permits candidates to campaign and to lead. Nil permits both.
	Guardian Guardian
	// CloseConnections closes all connections of the lock at once, so that no write of a past
	// term is delivered later. The lock dials again for the next request. Nil means that only
	// the end of its context ends a request. It is safe for concurrent use.
	CloseConnections func()
	// Phases returns the latest phase that was seen of a migration to this lock, and all that
	// there are. now is empty if no migration is known. It does no I/O, and is safe for
	// concurrent use. Nil means that there is no migration. An elector only reports the phase.
	Phases func() (now string, all []string)
	// Group is the name under which the lock's candidates announce themselves, if they do so
	// for many locks together. An elector only reports it, and a lock on a Lease notes it there. Empty
	// means the lock's own name.
	Group string
}

// Description names a lock for people, telemetry and error messages.
type Description struct {
	Kind      string // of the object that stores the record, such as "Lease"; never empty
	Namespace string // empty if the lock has none
	Name      string // never empty
}

// String returns "Kind namespace/name".
func (d Description) String() string {
	s := d.Name
	if d.Namespace != "" {
		s = d.Namespace + "/" + s
	}
	if d.Kind != "" {
		s = d.Kind + " " + s
	}
	return s
}

// Errors that a [Lock] returns, wrapped in an error that says what was tried and, if
// possible, what to do. Use errors.Is.
//
// ErrConflict and ErrVersionExpired are part of the contract: an elector handles each of
// them differently. It treats ErrForbidden and ErrNoAPI like any other error, but tells
// people and telemetry which one occurred.
var (
	// ErrConflict, from Write: the record is no longer the one that the write
	// replaces, and nothing was written.
	ErrConflict = errors.New("the record was changed meanwhile")
	// ErrVersionExpired, from Watch: it can no longer start from that version; read
	// again.
	ErrVersionExpired = errors.New("the version is too old to watch from")
	// ErrForbidden: a permission is missing.
	ErrForbidden = errors.New("permission missing")
	// ErrNoAPI: the server does not serve this kind of object.
	ErrNoAPI = errors.New("API not served")
)
