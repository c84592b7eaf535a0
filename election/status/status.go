// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status names the states of an elector, the changes that it reports, and the
// ways in which a lock comes to be free.
package status

// State is what an elector is doing.
type State string

// The states of an elector.
const (
	StateIdle     State = "idle" // Run has not been called, or has returned
	StateFollower State = "follower"
	// StateAdopting: this candidate holds the lock, and its work may not begin yet. The
	// lock's guardian does not permit it, or another candidate may still lead.
	// Status.Waiting says which.
	StateAdopting State = "adopting"
	StateLeader   State = "leader" // the work runs
	// StateStopping: the term ends, and the work has not returned yet.
	StateStopping State = "stopping"
)

// Change names what happened in a transition of an elector.
type Change string

// The changes that subscribers get.
const (
	ChangeFollowing Change = "following" // Status.Holder changed while this candidate follows
	ChangeAdopting  Change = "adopting"  // this candidate holds the lock, its work may not begin yet
	ChangeWaiting   Change = "waiting"   // Status.Waiting changed
	ChangeLeading   Change = "leading"   // the work of a term begins
	ChangeStopping  Change = "stopping"  // the term ends: the work's context ended
	ChangeStopped   Change = "stopped"   // the work returned
	ChangeReleased  Change = "released"  // the lock was released
	// ChangeOverrun: the work did not stop in time, or has returned election.ErrUnfinished, which
	// the cause then wraps. The elector lets the lease run out and does not release the lock for
	// this term.
	ChangeOverrun  Change = "overrun"
	ChangeHealth   Change = "health"   // Status.Unhealthy changed
	ChangeRefused  Change = "refused"  // a handover that the record asked for was refused
	ChangeStaying  Change = "staying"  // Status.Staying changed
	ChangeProblem  Change = "problem"  // Status.Problem is new, or a different one
	ChangeResolved Change = "resolved" // a problem is gone
	ChangeEnded    Change = "ended"    // Run returns
)

// Cause is how a lock came to be free for its next holder.
type Cause string

// The causes of a takeover.
const (
	// CauseExpired: the holder did not renew for a whole lease.
	CauseExpired Cause = "expired"
	// CauseReleased: the holder released the lock.
	CauseReleased Cause = "released"
	// CauseAbsent: there was no record, and no trace of one.
	CauseAbsent Cause = "absent"
	// CauseDeleted: the record was deleted, and then its lease ran out.
	CauseDeleted Cause = "deleted"
	// CauseCleared: somebody other than the holder emptied the record, and then the
	// lease ran out.
	CauseCleared Cause = "cleared"
	// CauseDied: the holder was proven dead.
	CauseDied Cause = "died"
	// CauseReclaimed: the record names the candidate itself, from a term that has ended
	// or an acquisition whose answer was lost. A term whose work did not stop in time
	// is not reclaimed: the candidate waits for its lease to run out, as all others do.
	CauseReclaimed Cause = "reclaimed"
)
