// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package locks

import "context"

// Lock is a shared record that at most one candidate holds, with the four operations
// that an elector needs. An implementation keeps no copy of the record: the caller
// passes versions back. All methods are safe for concurrent use and return soon after
// their context ends. Package lockstest has the tests that every Lock must pass.
type Lock interface {
	// Read returns the current record. It is linearizable: it sees every write that anybody
	// knew of before Read was called, by an answer, a read or a watch. If there is no
	// record, it returns a Snapshot that does not exist, and no error.
	Read(ctx context.Context) (Snapshot, error)

	// Write replaces the record at version base, or creates the record if base
	// does not exist, and returns the new snapshot. It fails with ErrConflict,
	// having written nothing, if the record is no longer at base. After any other
	// error the write may have landed, or may still land until the context ends, or
	// for longer if the error says so, see Unsettled.
	Write(ctx context.Context, base Version, record Record) (Snapshot, error)

	// Watch sends every change of the record after version from, in order, and
	// blocks. From the zero Version it starts with the current record, if there is
	// one. It returns nil when the watch ends by itself, which every watch does
	// after a bounded time; ErrVersionExpired when the history since from is gone;
	// and otherwise the error. When ctx ends it may return an error or nil. It does
	// not close events.
	// A watch may be late, silent or broken, so no safety rule may depend on it.
	Watch(ctx context.Context, from Version, events chan<- Event) error

	// Describe returns the lock's name. It does no I/O.
	Describe() Description
}

// Feeder is a Lock whose changes can be followed without a goroutine. An elector uses Follow
// instead of Watch if the lock has it.
type Feeder interface {
	Lock

	// Follow returns a Feed of what Watch would send. It returns at once.
	Follow(from Version) Feed
}

// Feed has the changes of a record that its reader has not taken yet. Its methods return at
// once. They are for one goroutine.
type Feed interface {
	// Ready returns a channel that gets a value when Take may have something to return,
	// the first time at once.
	Ready() <-chan struct{}
	// Take returns the events since the last call. If the feed has ended after them, it
	// returns the error that Watch would return, and nothing more afterwards.
	Take() ([]Event, error)
	// Close ends the feed.
	Close()
}

// Description names a lock for people, telemetry and error messages.
type Description struct {
	Kind      string // of the object that stores the record, such as "Lease"
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

// Phased is a Lock that moves a program off another kind of lock, in phases. An elector only
// reports the phase.
type Phased interface {
	Lock

	// Phases returns the latest phase that was seen, and all that there are. now is empty
	// if no migration is known. It does no I/O.
	Phases() (now string, all []string)
}

// Crowded is a Lock whose candidates are those of other locks too. An elector reports under
// the name that they have in common how many there are.
type Crowded interface {
	Lock

	// Crowd returns the name that the candidates of all those locks have in common. It does
	// no I/O.
	Crowd() string
}
