// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"time"
)

// Lock is one shared record that at most one candidate may hold, with the four
// operations an [Elector] needs. Implementations keep no copy of the record:
// versions travel through the caller. All methods are safe for concurrent use
// and return soon after their context ends. The package electiontest holds the
// conformance suite that every Lock must pass.
type Lock interface {
	// Read returns the record as it is now. It is linearizable: it sees every
	// write that was acknowledged before Read was called. That there is no
	// record is no error but a Snapshot that does not exist.
	Read(ctx context.Context) (Snapshot, error)

	// Write puts record in the place of the one at base, or creates it where
	// base does not exist, and returns what now stands. It fails with
	// ErrConflict, having written nothing, if something else stands there by
	// now. After any other error the write may have landed, or may yet land
	// until the context ends.
	Write(ctx context.Context, base Version, record Record) (Snapshot, error)

	// Watch sends what happens to the record after the given version, in
	// order, and blocks. From a zero Version it begins with the record as it
	// is, if there is one. It returns nil when it ends by itself, as every
	// watch does after a bounded time; ErrVersionExpired when the history
	// since from is gone; else what went wrong, where the end of ctx may be an
	// error or none. It does not close events.
	// A watch may be late, silent or broken: nothing that must be true may
	// rest on it.
	Watch(ctx context.Context, from Version, events chan<- Event) error

	// Describe says what lock this is. It does no I/O.
	Describe() Description
}

// Amender is a Lock that can also replace a record whose version is not known yet,
// by what it says. By that an elector behind a slow API server renews while the
// answer to the write before is still on its way.
type Amender interface {
	Lock

	// Amend puts record in the place of before, whatever version that has got.
	// record must differ in RenewTime, and may in Details. It fails with
	// ErrConflict, having written nothing, unless the record is before, where
	// Evacuated, Details.Request and Details.Refused do not count: what others ask
	// for stays. All else is as for Write.
	Amend(ctx context.Context, before, record Record) (Snapshot, error)
}

// Description names a lock for people, telemetry and error messages.
type Description struct {
	Kind      string // what holds the record, such as "Lease"
	Namespace string // empty where the lock has none
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

// Version identifies one state of a lock's record. The zero Version is that of
// a record of which nothing is known.
type Version struct {
	// Number orders the versions of a lock, also across deletion and
	// creation: a later write has a larger number. It is never zero where a
	// record exists.
	Number uint64
	// Token is the fencing token of a term whose first acknowledged write made
	// this version. Zero means Number: set it where that orders versions within
	// one process alone.
	Token uint64
	// UID changes when the record is deleted and made anew.
	UID string
	// Opaque belongs to the Lock, which gets it back in Write. It is nil
	// exactly where the record does not exist.
	Opaque any
}

// Exists reports whether a record stands at this version.
func (v Version) Exists() bool { return v.Opaque != nil }

// Snapshot is a lock's record at a version.
type Snapshot struct {
	Version Version
	Record  Record // zero where Version does not exist
	// Partial says that the record stands, but part of what keeps others out, or
	// of what a lock notes beside it, is gone: its holder renews at once.
	Partial bool
}

// Event is one thing that a watch saw: a new snapshot (one that does not exist
// after a deletion), or a bookmark.
type Event struct {
	Snapshot Snapshot
	// Bookmark says that nothing happened up to Snapshot.Version.Number,
	// which is all that is set then.
	Bookmark bool
	// Gapless says that this watch has told all that happened between the version
	// that it was to go on from, if any, and this one. By that whoever makes a
	// deleted record anew learns whether somebody else did so before (S4), and
	// waits for a lease if its watch is silent. A lock whose watches leave
	// anything out does not set it on any event.
	Gapless bool
}

// Record is what stands in a lock. Its first five fields are what client-go's
// LeaderElectionRecord has; a lock may store times to the microsecond only.
type Record struct {
	Holder string // the holder's identity; empty where nobody holds the lock
	// LeaseDuration is in whole seconds. Zero or negative means that the
	// record holds none or nonsense: a reader's own counts then.
	LeaseDuration time.Duration
	// AcquireTime and RenewTime are wall clock times, for people to read. No
	// decision rests on them, but that they differ from those before.
	AcquireTime time.Time
	RenewTime   time.Time
	Transitions int32 // changes of holder, as far as the record remembers

	Details Details
	// Evacuated names the zones that people want leadership out of, see
	// [ParseEvacuations]. It is about the lock, not about its holder: an elector
	// writes it as it found it. Empty means that a lock leaves what it has.
	Evacuated string
}

// Details is what a record says beyond the lease itself.
type Details struct {
	// Holder is the identity that the other fields were written by or for.
	// They are believed only while it equals Record.Holder, for other writers,
	// such as client-go, leave them standing; in a record without holder, only
	// Token and Released are, to tell whether that term was given up, and then
	// Handover.
	Holder string
	// Token is the fencing token of Holder's term; zero until it is noted.
	Token uint64
	// Released is Token once Holder has given the lock up, and Handover whom it
	// named to lead next.
	Released uint64
	Handover Handover
	// Request asks Holder to hand over, see [HandoverRequest]. Somebody else
	// writes it, and Holder takes it off. Refused says why it has not done as it
	// was asked: by a request, or because its zone is evacuated.
	Request string
	Refused string

	// Nonce is what the process that took the lock drew at its start. It tells two
	// processes of one identity apart, which S9 forbids and people do.
	Nonce string

	// Waits says why Holder does not lead yet: others may, of whom it cannot know.
	// Then its death proves nothing.
	Waits string

	Zone      string
	Node      string
	Pod       string // name/uid
	Container string
	Trace     string // W3C traceparent of the term

	Marks
}

// Marks tell one process from all others of its pod, so that a candidate can
// prove that it is dead (see Config.Dead). What is not known for certain is
// empty.
type Marks struct {
	// Seat names the place where no two processes can be at a time, and whose
	// holder has it until it ends.
	Seat string
	// ContainerID is the container instance that the process ends with.
	ContainerID string
}

// sameRenewal reports whether two records are the same renewal of the same
// term: the first five fields are equal, times to the microsecond, but for the
// duration, which a hand may have changed. Two from which somebody's hand took
// the time may be different ones.
func (r Record) sameRenewal(o Record) bool {
	return !o.RenewTime.IsZero() && r.Holder == o.Holder &&
		r.AcquireTime.UnixMicro() == o.AcquireTime.UnixMicro() &&
		r.RenewTime.UnixMicro() == o.RenewTime.UnixMicro() &&
		r.Transitions == o.Transitions
}

// Errors that a [Lock] returns, to be told apart with errors.Is. Each is
// wrapped in one that says what was tried and, where it can, what to do.
var (
	// ErrConflict: the record is not at the version the write was to replace.
	ErrConflict = errors.New("the record was changed meanwhile")
	// ErrVersionExpired: a watch cannot go on from that version; read anew.
	ErrVersionExpired = errors.New("the version is too old to watch from")
	// ErrForbidden: a permission is missing.
	ErrForbidden = errors.New("permission missing")
	// ErrNoAPI: the server does not know this kind of record at all.
	ErrNoAPI = errors.New("API not served")
)

type liveKey struct{}

// WithLiveConnection asks a Lock to serve the calls of this context on a
// connection on which the server was heard from since then, or on one that is
// opened for it: the others may be dead. The wish travels in the context since it
// has to cross client libraries that know nothing of it; a Lock without
// connections ignores it.
func WithLiveConnection(ctx context.Context, since time.Time) context.Context {
	return context.WithValue(ctx, liveKey{}, since)
}

// WithFreshConnection is WithLiveConnection since now.
func WithFreshConnection(ctx context.Context) context.Context {
	return WithLiveConnection(ctx, time.Now())
}

type orderedKey struct{}

// WithOneConnection asks a Lock to serve the calls of this context on one connection
// that they share, in order, however many are under way. An elector does so for
// amendments alone: it takes long to find that connection dead.
func WithOneConnection(ctx context.Context) context.Context {
	return context.WithValue(ctx, orderedKey{}, true)
}

// WantsOneConnection reports whether the calls of ctx are to share a connection.
func WantsOneConnection(ctx context.Context) bool {
	wants, _ := ctx.Value(orderedKey{}).(bool)
	return wants
}

// WantsLiveConnection returns since when a connection must have been alive to
// serve the calls of ctx, and false where any connection will do.
func WantsLiveConnection(ctx context.Context) (since time.Time, wants bool) {
	since, wants = ctx.Value(liveKey{}).(time.Time)
	return since, wants
}
