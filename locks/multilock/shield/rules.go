// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package shield

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/multilock/internal/candidate"
	"github.com/zonelect/zonelect/locks/multilock/shield/internal/shieldmap"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// ErrLegacy says that the legacy side of the lock was lost: a legacy pod has taken it, or
// the ConfigMap is not the one that this candidate put there.
var ErrLegacy = errors.New("the legacy lock was lost")

// duty is the role of a candidate toward the shield.
type duty int

const (
	member   duty = iota // no term: the candidate keeps its presence among the owners (M2)
	adopting             // it holds the Lease but may not lead yet
	leading
	leaving // the work has returned, but it still holds the Lease
)

// action is one request, or several that belong together.
type action string

const (
	idle      action = ""
	read      action = "read"
	join      action = "join"
	putUp     action = "put up"
	count     action = "count"
	arm       action = "arm"
	remove    action = "remove"
	seal      action = "seal"
	unseal    action = "unseal"
	forget    action = "forget"
	notePhase action = "note"  // writes the phase on the shield
	grant     action = "grant" // no request: the work may begin
	leave     action = "leave" // no request: the term is over
)

// step is the next action, and what the candidate waits for until then.
type step struct {
	do  action
	why string
	// until is when to look again, if not at the next event; zero for never.
	until time.Time
}

// rules decide what to do from what a candidate knows. They do not change the state.
type rules struct{ *state }

func (s *state) rules() rules { return rules{s} }

// permission says whether a candidate may campaign (M1, M10).
func (r rules) permission() locks.Permission {
	switch {
	case r.me == ownerref.Owner{}:
		return locks.Permission{Why: "this candidate's presence does not exist yet"}
	case r.record.Kind == "":
		return locks.Permission{Why: "the legacy ConfigMap has not been read yet"}
	case r.stage.Phase == record.PhaseLegacy && r.isLeftOver():
		return locks.Permission{Granted: true}
	}
	return candidate.PermissionIn(r.stage, r.mode, record.PhaseSealed, record.PhaseClean)
}

// isLeftOver reports whether a shield exists that, in phase legacy, may have no leader
// left to remove it. A candidate that does not work then campaigns only to remove it,
// because only the Lease's holder may do so (M3, M10).
func (r rules) isLeftOver() bool {
	return r.hasShield() && (r.duty == member || r.duty == adopting)
}

// next decides what to do.
func (r rules) next(now time.Time) step {
	switch {
	case r.me == ownerref.Owner{}:
		return step{why: "this candidate's presence does not exist yet"}
	case !r.known:
		return step{do: read}
	case r.duty == member:
		return r.asMember(now)
	case r.duty == leaving:
		return r.asLeaving()
	case r.readAt.Before(r.since):
		return step{do: read} // M6: a live read after the Lease was won
	}
	switch {
	case r.stage.Phase == record.PhaseLegacy && r.duty == adopting:
		return r.inPhaseLegacy()
	case r.stage.Phase == record.PhaseClean:
		return r.inPhaseClean()
	}
	if r.record.Condemned {
		return r.underCondemned(now)
	}
	switch r.record.Kind {
	case ownerref.Shield:
		return r.underShield(now)
	case ownerref.Sealed:
		return r.underSeal(now)
	case ownerref.Foreign:
		if !r.record.Bare { // else nobody leads by it, as if its owner were gone (M4)
			return step{why: r.record.Why, until: now.Add(r.recheck)}
		}
	case ownerref.Absent:
		if r.duty == leading {
			return step{do: putUp} // M8: at once
		}
	}
	return r.withoutShield(now)
}

// asMember keeps this candidate's presence among the shield's owners (M2).
func (r rules) asMember(now time.Time) step {
	if r.record.Kind != ownerref.Shield || r.record.Condemned || r.record.Has(r.me) || r.stage.Phase == record.PhaseLegacy {
		return step{}
	}
	if turn := r.turn(); now.Before(turn) {
		return step{until: turn}
	}
	return step{do: join}
}

// turn is when a member adds its presence to the shield's owners, if no other has done so
// by then: every writer adds all known presences. Of the missing ones, the first by UID
// goes at once and the next a slot later, when it has seen what the first one wrote. A
// holder does not wait for its turn.
func (r rules) turn() time.Time {
	slot := r.recheck / 10
	if !r.listed {
		return r.outside.Add(slot)
	}
	missing, before := 0, 0
	for _, o := range r.shieldKeepers {
		if o.UID == r.me.UID || r.record.Has(o) {
			continue
		}
		missing++
		if o.UID < r.me.UID {
			before++
		}
	}
	return r.outside.Add(time.Duration(before) * min(slot, 2*r.recheck/time.Duration(missing+1)))
}

// joined returns shield with this candidate's presence among its owners, and with all
// others that belong there (M2).
func (r rules) joined(shield shieldmap.State) shieldmap.State {
	return shield.With(r.me).With(r.shieldKeepers...)
}

// inPhaseLegacy is for a holder, which never leads in that phase: it removes the shield
// that the last holder left (M10).
func (r rules) inPhaseLegacy() step {
	const why = "the phase on record is legacy"
	if r.hasShield() {
		return step{do: remove, why: why + ": the shield must go first"}
	}
	return step{why: why}
}

// asLeaving gives the legacy lock back if the phase says so (M10).
func (r rules) asLeaving() step {
	if r.stage.Phase == record.PhaseLegacy && r.hasShield() {
		return step{do: remove}
	}
	return step{do: leave}
}

// inPhaseClean is for the end of a migration: the legacy lock's place is empty.
func (r rules) inPhaseClean() step {
	switch {
	case r.hasShield():
		return step{do: remove}
	case r.record.Kind == ownerref.Legacy:
		return step{why: fmt.Sprintf("the phase on record is clean, and yet legacy pod %s holds the lock: remove that pod; "+
			"if more may start, roll back to phase dual once the ConfigMap has gone with it", r.record.Owner.Name)}
	}
	return r.granted()
}

// granted lets the work begin, under a shield that carries the phase, so that a decision
// of an earlier holder in an earlier phase comes too late (M10), and that may be watched
// (M8). A leader keeps the phase on the shield.
func (r rules) granted() step {
	switch {
	case r.duty != adopting && r.stage.Phase == record.PhaseLegacy:
		return step{}
	case r.hasShield() && r.record.Stage != r.stage:
		return step{do: notePhase}
	case r.duty != adopting:
		return step{}
	case (r.neverWatched || r.watchRefusal != "") && r.stage.Phase != record.PhaseClean:
		return step{why: cmp.Or(r.watchRefusal, "the ConfigMap is not watched yet")}
	}
	return step{do: grant}
}

// withoutShield is for the time before the shield is up: no legacy pod may be left (M4).
func (r rules) withoutShield(now time.Time) step {
	switch left, due := r.isCounted(); {
	case !left:
		return step{do: count}
	case len(r.pods.Standing) > 0:
		return r.countAgain(now, due.Add(r.poll))
	case r.record.Kind == ownerref.Legacy, r.record.Bare:
		return step{do: remove}
	}
	return step{do: putUp}
}

// underCondemned is for a ConfigMap that somebody deleted and that finalizers keep. Whatever it is,
// nothing that is written on it stays: it is neither armed nor sealed, and no work begins under it.
// A leader goes on, because legacy pods still wait at it, and puts another shield up as soon as it is
// gone (M8).
func (r rules) underCondemned(now time.Time) step {
	s := step{}
	if r.duty == leading && len(r.record.Presumed) > 0 {
		s = r.whilePresuming(now) // M11
	}
	s.why = r.record.Lingering()
	return s
}

// countAgain counts again when it is time, and says what the holder waits for.
func (r rules) countAgain(now, again time.Time) step {
	why := r.pods.waitingFor()
	if now.Before(again) {
		return step{why: why, until: again}
	}
	return step{do: count, why: why}
}

// underShield arms the shield (M5), seals it if the phase says so (M9), and lets the work
// begin under an armed shield that has this candidate's presence (M6, M7).
func (r rules) underShield(now time.Time) step {
	shield := r.record
	switch {
	case !shield.Has(r.me):
		return step{do: join}
	case !shield.Armed:
		return r.underUnarmedShield(now)
	case len(shield.Presumed) > 0 && r.duty == adopting && r.pods.at.IsZero():
		return step{do: count}
	case r.pods.returned(shield.Presumed) != nil:
		return step{do: remove}
	case r.stage.Phase == record.PhaseSealed && len(shield.Presumed) == 0:
		return step{do: seal}
	case r.duty == adopting && now.Before(r.settled):
		return step{why: "the garbage collector may not have seen this candidate's presence yet", until: r.settled}
	case r.duty == adopting && r.readAt.Before(r.settled):
		return step{do: read}
	case r.duty == leading && len(shield.Presumed) > 0:
		return r.whilePresuming(now)
	}
	return r.granted()
}

// whilePresuming follows the legacy pods that were presumed gone (M11): a leader forgets
// a pod that is really gone, and seals nothing while one is left.
func (r rules) whilePresuming(now time.Time) step {
	presumed := r.record.Presumed
	why := fmt.Sprintf("%d legacy pods that are presumed gone, and may not be", len(presumed))
	switch again := r.pods.at.Add(r.recheck); {
	case !now.Before(again):
		return step{do: count, why: why}
	case len(r.pods.left(presumed)) < len(presumed):
		return step{do: forget, why: why}
	default:
		return step{why: why, until: again}
	}
}

// underUnarmedShield counts the legacy pods after the shield is up, at the version that
// it then arms (M5).
func (r rules) underUnarmedShield(now time.Time) step {
	switch fresh, at := r.isCounted(); {
	case !fresh:
		return step{do: count}
	case len(r.pods.Standing) == 0:
		return step{do: arm}
	case r.duty == leading:
		return r.countAgain(now, at.Add(r.recheck))
	}
	return step{do: remove}
}

// underSeal gives the shield back to the presences if the phase says so (M10).
func (r rules) underSeal(now time.Time) step {
	switch {
	case r.stage.Phase == record.PhaseDual:
		return step{do: unseal}
	case !r.record.Armed: // somebody's copy of a sealed shield
		return r.underUnarmedShield(now)
	}
	return r.granted()
}
