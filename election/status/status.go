// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status names what an elector is doing, what happens to it, and how a lock
// came to be free.
package status

// State is what an elector is doing.
type State string

// The states of an elector.
const (
	StateIdle     State = "idle" // Run has not been called, or has returned
	StateFollower State = "follower"
	// StateAdopting: the lock is held, and the work may not begin yet, because
	// the lock's guardian does not allow it, or it is not known yet that nobody
	// else leads. Status.Waiting says why.
	StateAdopting State = "adopting"
	StateLeader   State = "leader"
	// StateStopping: the work was told to stop and has not returned yet.
	StateStopping State = "stopping"
)

// Change names what happened in a transition of an elector.
type Change string

// The changes that subscribers hear of.
const (
	ChangeFollowing Change = "following" // another holder is known, or none
	ChangeAdopting  Change = "adopting"  // the lock is held, the work may not begin yet
	ChangeWaiting   Change = "waiting"   // Status.Waiting is another one, or gone
	ChangeLeading   Change = "leading"   // a term's work begins
	ChangeStopping  Change = "stopping"  // the term ends: the work's context ended
	ChangeStopped   Change = "stopped"   // the work returned
	ChangeReleased  Change = "released"  // the lock was given up
	// ChangeOverrun: the work did not stop in time. The lease is left to run
	// out, and never released for it.
	ChangeOverrun  Change = "overrun"
	ChangeHealth   Change = "health"   // Status.Unhealthy is another one, or gone
	ChangeRefused  Change = "refused"  // a handover that the record asked for was refused
	ChangeStaying  Change = "staying"  // Status.Staying is another one, or gone
	ChangeProblem  Change = "problem"  // Status.Problem is new or another one
	ChangeResolved Change = "resolved" // Status.Problem is gone
	ChangeEnded    Change = "ended"    // Run returns
)

// Cause says how a lock came to be free for the next holder.
type Cause string

// The causes of a takeover.
const (
	// CauseExpired: the holder was silent for a whole lease.
	CauseExpired Cause = "expired"
	// CauseReleased: the holder gave the lock up.
	CauseReleased Cause = "released"
	// CauseAbsent: there was no record, and no trace of one.
	CauseAbsent Cause = "absent"
	// CauseDeleted: the record was deleted, and its lease ran out thereafter.
	CauseDeleted Cause = "deleted"
	// CauseCleared: somebody else than the holder emptied the record, and the
	// lease ran out thereafter.
	CauseCleared Cause = "cleared"
	// CauseDied: the holder was proven dead.
	CauseDied Cause = "died"
	// CauseReclaimed: the record names the candidate itself, from a term that
	// has ended or an acquisition whose answer was lost. A term whose work did
	// not stop in time is not reclaimed: its lease runs out, as for any other.
	CauseReclaimed Cause = "reclaimed"
)
