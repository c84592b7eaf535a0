// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package locks

import "time"

// Version identifies one state of a lock's record. The zero Version means that
// nothing is known about the record.
type Version struct {
	// Number orders the versions of a lock, even across deletion and creation: a later
	// write has a larger number. It is never zero if the record exists.
	Number uint64
	// Token is the fencing token of a term whose first acknowledged write made this
	// version. Zero means that Number is the token. A Lock sets Token if its Number
	// orders versions within one process only.
	Token uint64
	// UID changes when the record is deleted and created again. It is never empty if the
	// record exists.
	UID string
	// Opaque belongs to the Lock, and the caller passes it back to Write. It is nil if
	// and only if the record does not exist.
	Opaque any
}

// Exists reports whether there is a record at this version.
func (v Version) Exists() bool { return v.Opaque != nil }

// Snapshot is a lock's record at a version.
type Snapshot struct {
	Version Version
	Record  Record // zero if Version does not exist
	// Partial reports that the record exists, but that part of the lock's storage is
	// gone: the object that keeps legacy electors out, or an annotation. The holder
	// renews at once, which restores it.
	Partial bool
	// Barred is why no candidate may campaign that knows the record by this Lock alone, such
	// as a migration's phase; empty if it may. A leader ends its term in good order.
	Barred string
}

// Event is one report of a watch: a new snapshot, or a bookmark. After a deletion the snapshot
// does not exist, and its Number is that of the deletion, which is larger than any before.
type Event struct {
	Snapshot Snapshot
	// Bookmark reports that nothing happened up to Snapshot.Version.Number. No other field
	// is set but Gapless, which means the same as in any event. A Lock need not send
	// bookmarks.
	Bookmark bool
	// Gapless reports that the watch has sent every change between the version it
	// started from and this one. A candidate that recreates a deleted record needs
	// this to know whether another candidate had recreated it before (S4); if the
	// watch is silent it waits for a lease. A Lock whose watches may skip changes
	// never sets it.
	Gapless bool
}

// Record is the content of a lock. Its first five fields are those of client-go's
// LeaderElectionRecord. A lock may store times to the microsecond only.
type Record struct {
	Holder string // the holder's identity; empty if nobody holds the lock
	// LeaseDuration is in whole seconds. If it is zero or negative, the record has
	// no valid duration. No reader then takes the lock from a holder by time alone,
	// because it cannot know how long that holder leads.
	LeaseDuration time.Duration
	// AcquireTime and RenewTime are wall clock times, for people to read. An elector only
	// checks whether they have changed.
	AcquireTime time.Time
	RenewTime   time.Time
	Transitions int32 // changes of holder, as far as the record remembers

	Details Details
	// Evacuated lists the zones that leadership should leave, separated by commas, each with
	// its end if it has one: "za,zb=2026-11-21T12:00:00Z". People may write it. It belongs to
	// the lock and not to its holder: an elector writes back what it read. If it is empty,
	// Write may keep the stored value.
	Evacuated string
	// Previous says who led before the holder. Each acquisition replaces it, and other writes
	// write back what was read. Nothing depends on it, and a Lock may have no room for it.
	Previous Previous
}

// Previous is the end of a term, as the next holder saw it.
type Previous struct {
	// Holder is who led; empty if that is not known, or if the identity is too long.
	Holder string
	// Until is when Holder renewed or released the lock for the last time, by the clock of the
	// next holder; zero if that one did not see it.
	Until time.Time
	// Cause is how the lock came free, a status.Cause.
	Cause string
}

// Details holds the fields that zonelect stores beside those of client-go.
type Details struct {
	// Holder is the identity that the other fields are about. They are valid only
	// while Holder equals Record.Holder, because other writers, such as client-go,
	// leave them in place. In a record without a holder only Token and Released are
	// valid, which tell whether that term was released, and then Handover.
	Holder string
	// Token is the fencing token of Holder's term. It is larger than that of any earlier
	// term, even if the record was deleted in between (S8). The first renewal writes it;
	// until then it is zero.
	Token uint64
	// Released equals Token once Holder has released the lock. In a record that still
	// has a holder, it says that Holder has released a part of the lock. Handover names
	// the candidate that Holder wants to lead next.
	Released uint64
	Handover Handover
	// Request asks Holder to hand over, in JSON: {"holder":"IDENTITY"}, with the "identity"
	// or "zone" of the successor if that matters. Somebody else writes it, and Holder removes
	// it. Refused is why Holder has not handed over, after a request or because its zone is
	// evacuated.
	Request string
	Refused string

	// Nonce is a random value that the process drew when it started. It tells apart two
	// processes that share an identity, which happens although rule S9 forbids it.
	Nonce string

	// Waits is why Holder does not lead yet: another candidate that it cannot see may
	// still lead. While it is set, Holder's death does not free the lock.
	Waits string

	Zone  string
	Node  string
	Pod   Pod
	Trace string // W3C traceparent of the term

	// ProcessLock names a lock of the operating system that Holder's process keeps until its end:
	// whoever has it later knows that the process has ended. The name of the process follows, after
	// a slash. It is empty if the process has none.
	ProcessLock string
}

// SameRenewal reports whether two records are the same renewal of the same term. It
// compares the holder, the times to the microsecond and the transitions. It ignores the
// duration, which somebody may have edited. A record without RenewTime equals no other.
func (r Record) SameRenewal(o Record) bool {
	return !o.RenewTime.IsZero() && r.Holder == o.Holder &&
		r.AcquireTime.UnixMicro() == o.AcquireTime.UnixMicro() &&
		r.RenewTime.UnixMicro() == o.RenewTime.UnixMicro() &&
		r.Transitions == o.Transitions
}

// Successor selects the candidate that leads next. The zero value selects the one that
// would take over if the current leader died.
type Successor struct {
	// Identity selects one candidate, and Zone all candidates in a zone. An empty
	// field selects all.
	Identity string `json:"identity,omitempty"`
	Zone     string `json:"zone,omitempty"`
}

// Handover names, in a released record, the candidate that leads next.
type Handover struct {
	To string // an identity; empty if no candidate was named
	// Precedence is how long all other candidates leave the lock alone. Each counts from
	// when it first saw the release. A reader caps it at its own LeaseDuration. Whole
	// milliseconds.
	Precedence time.Duration
}
