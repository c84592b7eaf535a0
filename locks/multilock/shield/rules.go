// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package shield

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/multilock/internal/participant"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// ErrLegacy says that the legacy side of the lock was lost: a legacy pod has
// taken it, or it is not what this candidate put there.
var ErrLegacy = errors.New("the legacy lock was lost")

// duty is what a candidate has to do about the shield.
type duty int

const (
	member   duty = iota // no term: it keeps its presence among the owners (M2)
	adopting             // it holds the Lease and may not lead yet
	leading
	leaving // the work has returned, the Lease is still held
)

// action is one request, or several that belong together.
type action int

const (
	idle action = iota
	read
	join
	putUp
	count
	arm
	remove
	seal
	unseal
	forget
	notePhase // the phase, on the shield
	grant     // no request: the work may begin
	leave     // no request: the term is over
)

var actionNames = [...]string{"idle", "read", "join", "put up", "count", "arm", "remove", "seal", "unseal", "forget", "note", "grant", "leave"}

func (a action) String() string { return actionNames[a] }

// step is what to do next, and what is waited for until then.
type step struct {
	do  action
	why string
	// until is when to look again, if not at the next event; zero for never.
	until time.Time
}

// situation is what one candidate knows, and the rules by which it goes on. It
// is pure: it does no I/O and reads no clock.
type situation struct {
	stage         record.Stage         // the latest change of phase that was seen on either object
	me            ownerref.Owner       // this candidate's presence; zero until it exists
	shieldKeepers []ownerref.Owner     // the presences of all candidates that keep a shield, as far as is known
	listed        bool                 // others were told
	record        ownerref.Record      // what stands in the legacy lock's place, as far as is known
	presumed      []ownerref.Owner     // by the last shield that was seen
	met           bool                 // record was read at least once
	known         bool                 // record was read
	owners        ownerref.ShieldState // its Seen are the legacy owners that were met
	readAt        time.Time            // when the newest read of record was sent

	mode participant.Mode

	duty         duty
	since        time.Time          // when the duty as a holder began
	inside       bool               // this candidate's presence was seen among the owners
	outside      time.Time          // since when it was not, on the ConfigMap as it is
	settle       time.Duration      // how long an old garbage collector is waited for (M7)
	settled      time.Time          // it does not lead before a read after this
	ours         map[types.UID]bool // ConfigMaps that this term leads under, or made
	floor        uint64             // the version that M6 read: events count from there
	shown        types.UID          // the ConfigMap that the watch showed last
	gap          bool               // the watch has missed events since
	marked       types.UID          // the ConfigMap that was a shield when last seen, whatever is on it now
	neverWatched bool               // the server has never agreed to a watch
	watchRefusal string             // why a watch is not permitted; empty if it may be
	pods         podCount
	poll         time.Duration // how often a holder that waits counts
	recheck      time.Duration // how often a leader under an unarmed shield counts
}

// podCount is what the newest count of legacy pods found, and at which version of
// the record.
type podCount struct {
	at       time.Time // zero if none was taken in this term
	of       uint64
	uid      types.UID
	standing []ownerref.Standing
	presumed []ownerref.Standing
	note     string // why M11 could not be applied
}

// returned returns a pod that was presumed gone and is not; nil if there is none.
func (c podCount) returned(presumed []ownerref.Owner) *ownerref.Standing {
	for _, p := range presumed {
		for _, s := range c.standing {
			if s.Pod.UID == p.UID && s.Heard {
				return &s
			}
		}
	}
	return nil
}

// left returns those that were presumed gone and still exist.
func (c podCount) left(presumed []ownerref.Owner) []ownerref.Owner {
	var left []ownerref.Owner
	for _, p := range presumed {
		same := func(s ownerref.Standing) bool { return s.Pod.UID == p.UID }
		if slices.ContainsFunc(c.standing, same) || slices.ContainsFunc(c.presumed, same) {
			left = append(left, p)
		}
	}
	return left
}

// presumes returns the pods in spite of which a shield is armed after c.
func (c podCount) presumes() []ownerref.Owner {
	var all []ownerref.Owner
	for _, p := range c.presumed {
		all = append(all, p.Pod)
	}
	return all
}

// permission says whether a candidate may campaign (M1, M10).
func (s *situation) permission() locks.Permission {
	switch {
	case s.me == ownerref.Owner{}:
		return locks.Permission{Why: "the own presence object does not exist yet"}
	case !s.met:
		return locks.Permission{Why: "the legacy ConfigMap has not been read yet"}
	case s.stage.Phase == record.PhaseLegacy && s.isLeftOver():
		return locks.Permission{Granted: true}
	}
	return participant.PermissionIn(s.stage, s.mode, record.PhaseSealed, record.PhaseClean)
}

// isLeftOver reports whether a shield stands that, in phase legacy, nobody may
// be left to take down: who does not work campaigns for that alone, for only the
// Lease's holder may (M3, M10).
func (s *situation) isLeftOver() bool {
	return s.isOurs() && (s.duty == member || s.duty == adopting)
}

// beginTerm takes up a term: what is known from before must be read again.
func (s *situation) beginTerm(now time.Time) {
	s.duty, s.since, s.pods = adopting, now, podCount{}
}

// startLeading is the moment from which the work may run.
func (s *situation) startLeading() {
	s.duty = leading
	s.shown = s.record.UID
	s.ours = map[types.UID]bool{s.record.UID: true}
}

// endTerm clears the term's state.
func (s *situation) endTerm() { s.duty, s.ours = member, nil }

// next decides what to do.
func (s *situation) next(now time.Time) step {
	switch {
	case s.me == ownerref.Owner{}:
		return step{why: "the own presence object does not exist yet"}
	case !s.known:
		return step{do: read}
	case s.duty == member:
		return s.asMember(now)
	case s.duty == leaving:
		return s.asLeaving()
	case s.readAt.Before(s.since):
		return step{do: read} // M6: live, after the Lease was won
	}
	switch {
	case s.stage.Phase == record.PhaseLegacy && s.duty == adopting:
		return s.handedBack()
	case s.stage.Phase == record.PhaseClean:
		return s.cleaned()
	}
	switch s.record.Kind {
	case ownerref.Shield:
		return s.underShield(now)
	case ownerref.Sealed:
		return s.underSeal(now)
	case ownerref.Foreign:
		return step{why: s.record.Why, until: now.Add(s.recheck)}
	case ownerref.Absent:
		if s.duty == leading {
			return step{do: putUp} // M8: at once
		}
	}
	return s.withoutShield(now)
}

// asMember keeps this candidate's presence among the shield's owners (M2).
func (s *situation) asMember(now time.Time) step {
	if s.record.Kind != ownerref.Shield || s.record.Shield.Has(s.me) || s.stage.Phase == record.PhaseLegacy {
		return step{}
	}
	if turn := s.turn(); now.Before(turn) {
		return step{until: turn}
	}
	return step{do: join}
}

// turn is when a member puts its presence among the shield's owners, if no other
// has done so by then: whoever writes puts in all that are known. Of those that
// are missing the first by UID goes at once, the next a slot later: by then it has
// seen what the first one wrote. A holder does not wait for its turn.
func (s *situation) turn() time.Time {
	slot := s.recheck / 10
	if !s.listed {
		return s.outside.Add(slot)
	}
	missing, before := 0, 0
	for _, o := range s.shieldKeepers {
		if o.UID == s.me.UID || s.record.Shield.Has(o) {
			continue
		}
		missing++
		if o.UID < s.me.UID {
			before++
		}
	}
	return s.outside.Add(time.Duration(before) * min(slot, 2*s.recheck/time.Duration(missing+1)))
}

// joined is a shield with this candidate's presence among its owners, and with all
// others that belong there (M2).
func (s *situation) joined(shield ownerref.ShieldState) ownerref.ShieldState {
	shield = shield.With(s.me)
	for _, o := range s.shieldKeepers {
		shield = shield.With(o)
	}
	return shield
}

// setPresence records this candidate's presence. A new one was never seen among the
// owners.
func (s *situation) setPresence(me ownerref.Owner, now time.Time) {
	if me != s.me {
		s.me, s.outside, s.inside = me, now, false
	}
}

// handedBack is a holder in phase legacy, who never leads: it takes the shield
// down that its last holder left (M10).
func (s *situation) handedBack() step {
	why := "the phase on record is legacy"
	if s.isOurs() {
		return step{do: remove, why: why + ": the shield must go first"}
	}
	return step{why: why}
}

// asLeaving gives the legacy lock back where the phase says so (M10).
func (s *situation) asLeaving() step {
	if s.stage.Phase == record.PhaseLegacy && s.isOurs() {
		return step{do: remove}
	}
	return step{do: leave}
}

func (s *situation) isOurs() bool {
	return s.record.Kind == ownerref.Shield || s.record.Kind == ownerref.Sealed
}

// cleaned is the end of a migration: nothing stands in the legacy lock's place.
func (s *situation) cleaned() step {
	switch {
	case s.isOurs():
		return step{do: remove}
	case s.record.Kind == ownerref.Legacy:
		return step{why: fmt.Sprintf("the phase on record is clean, and yet legacy pod %s holds the lock: roll back to phase dual, or remove that pod", s.record.Owner.Name)}
	}
	return s.granted()
}

// granted is when the work may begin: under a shield that carries the phase,
// so that what a holder before decided in an earlier one is too late (M10), and
// that may be watched (M8). A leader keeps the phase there.
func (s *situation) granted() step {
	switch {
	case s.duty != adopting && s.stage.Phase == record.PhaseLegacy:
		return step{}
	case s.isOurs() && s.record.Shield.Stage != s.stage:
		return step{do: notePhase}
	case s.duty != adopting:
		return step{}
	case (s.neverWatched || s.watchRefusal != "") && s.stage.Phase != record.PhaseClean:
		return step{why: cmp.Or(s.watchRefusal, "the ConfigMap is not watched yet")}
	}
	return step{do: grant}
}

// withoutShield is before the shield is up: no legacy pod may be left (M4).
func (s *situation) withoutShield(now time.Time) step {
	switch left, due := s.isCounted(); {
	case !left:
		return step{do: count}
	case len(s.pods.standing) > 0:
		return s.countAgain(now, due.Add(s.poll))
	case len(s.record.Finalizers) > 0:
		return step{why: fmt.Sprintf("the ConfigMap was deleted, and stays until its finalizers are gone: %s", strings.Join(s.record.Finalizers, ", "))}
	case s.record.Kind == ownerref.Legacy:
		return step{do: remove}
	}
	return step{do: putUp}
}

// isCounted reports whether the newest count is of the record as it stands, and
// when it was taken.
func (s *situation) isCounted() (bool, time.Time) {
	c := s.pods
	return !c.at.IsZero() && c.of == s.record.Number && c.uid == s.record.UID, c.at
}

// countAgain counts again when it is time, and says what the holder waits for.
func (s *situation) countAgain(now, again time.Time) step {
	why := s.pods.waitingFor()
	if now.Before(again) {
		return step{why: why, until: again}
	}
	return step{do: count, why: why}
}

// waitingFor names the legacy pods that may still lead, and what keeps M11 from
// telling that one is gone.
func (c podCount) waitingFor() string {
	const most = 3
	standing, names := c.standing, []string(nil)
	for _, p := range standing[:min(most, len(standing))] {
		names = append(names, fmt.Sprintf("%s (%s)", p.Pod.Name, p.Verdict.State))
	}
	if more := len(standing) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	text := "legacy pods that may still lead: " + strings.Join(names, ", ")
	if c.note != "" {
		text += "; " + c.note
	}
	return text
}

// underShield arms it (M5), seals it where the phase says so (M9), and lets
// the work begin under an armed one that has this candidate's presence (M6, M7).
func (s *situation) underShield(now time.Time) step {
	shield := s.record.Shield
	switch {
	case !shield.Has(s.me):
		return step{do: join}
	case !shield.Armed:
		return s.unarmed(now)
	case len(shield.Presumed) > 0 && s.duty == adopting && s.pods.at.IsZero():
		return step{do: count}
	case s.pods.returned(shield.Presumed) != nil:
		return step{do: remove}
	case s.stage.Phase == record.PhaseSealed && len(shield.Presumed) == 0:
		return step{do: seal}
	case s.duty == adopting && now.Before(s.settled):
		return step{why: "the garbage collector may not have seen this candidate's presence yet", until: s.settled}
	case s.duty == adopting && s.readAt.Before(s.settled):
		return step{do: read}
	case s.duty == leading && len(shield.Presumed) > 0:
		return s.presuming(now)
	}
	return s.granted()
}

// presuming watches over legacy pods that were presumed gone (M11): one that
// is gone indeed is forgotten, and while one is left nothing is sealed.
func (s *situation) presuming(now time.Time) step {
	presumed := s.record.Shield.Presumed
	why := fmt.Sprintf("%d legacy pods that are presumed gone, and may not be", len(presumed))
	switch again := s.pods.at.Add(s.recheck); {
	case !now.Before(again):
		return step{do: count, why: why}
	case len(s.pods.left(presumed)) < len(presumed):
		return step{do: forget, why: why}
	default:
		return step{why: why, until: again}
	}
}

// observeCount records a count. It returns the error that ends the term, if a legacy
// pod that was presumed gone is not.
func (s *situation) observeCount(c podCount) error {
	s.pods = c
	if p := c.returned(s.record.Shield.Presumed); p != nil && s.duty == leading {
		return fmt.Errorf("%w: the node of legacy pod %s, which was presumed gone, is heard of again", ErrLegacy, p.Pod)
	}
	return nil
}

// unarmed lists the legacy pods after the shield is up, at the version that is
// then armed (M5).
func (s *situation) unarmed(now time.Time) step {
	switch fresh, at := s.isCounted(); {
	case !fresh:
		return step{do: count}
	case len(s.pods.standing) == 0:
		return step{do: arm}
	case s.duty == leading:
		return s.countAgain(now, at.Add(s.recheck))
	}
	return step{do: remove}
}

// underSeal gives the shield back to the presences where the phase says so
// (M10).
func (s *situation) underSeal(now time.Time) step {
	switch {
	case s.stage.Phase == record.PhaseDual:
		return step{do: unseal}
	case !s.record.Shield.Armed: // somebody's copy of a sealed one
		return s.unarmed(now)
	}
	return s.granted()
}

// observe records an event of the watch. It returns the error that ends the term,
// if that was lost: while leading every event counts, not only the newest (M8).
func (s *situation) observe(r ownerref.Record, now time.Time) error {
	s.shown = r.UID
	return s.observeWrite(r, now)
}

// observeWrite records what this candidate's write left there.
func (s *situation) observeWrite(r ownerref.Record, now time.Time) error {
	r = s.identify(r)
	switch {
	case !s.known || r.Number > s.record.Number:
		s.setRecord(r, now)
	case r.UID == s.record.UID && !r.Shield.Has(s.me):
		s.settled = now.Add(s.settle) // it was out, though what was read since has it in
	}
	if r.Number <= s.floor {
		return nil
	}
	return s.lost(r)
}

// observeRead records the answer to a read that was sent at that time, when asOf
// was the newest version known.
func (s *situation) observeRead(r ownerref.Record, asOf uint64, sent, now time.Time) error {
	s.readAt = sent
	r = s.identify(r)
	if r.Kind == ownerref.Absent {
		r.Number = asOf
	}
	if s.known && s.record.Number > asOf && s.record.Number > r.Number {
		return nil // a watch has seen more meanwhile
	}
	s.setRecord(r, now)
	if s.duty == adopting {
		s.floor = r.Number
	}
	if err := s.lost(r); err != nil {
		return err
	}
	gap := s.gap
	s.gap = false
	if gap && s.duty == leading && s.stage.Phase != record.PhaseClean && r.UID != s.shown {
		return fmt.Errorf("%w: the watch missed events, and the ConfigMap is not the one that it showed last: a legacy pod may have held it meanwhile", ErrLegacy)
	}
	s.shown = r.UID
	return nil
}

// identify knows a shield by its UID if somebody has stripped it of all that
// says so: while that ConfigMap exists, no legacy pod can have made another, and
// all wait at one without an owner.
func (s *situation) identify(r ownerref.Record) ownerref.Record {
	switch {
	case r.Kind == ownerref.Shield || r.Kind == ownerref.Sealed:
		s.marked = r.UID
	case r.UID != s.marked || r.UID == "":
	case r.Bare:
		r.Kind, r.Why, r.Bare = ownerref.Shield, "", false
	default:
		s.marked = "" // it became something else
	}
	return r
}

// setRecord makes r the newest. A legacy owner that was met once is remembered: it
// must be gone before this candidate leads (M4).
func (s *situation) setRecord(r ownerref.Record, now time.Time) {
	inside := r.Shield.Has(s.me)
	if r.UID != s.record.UID || inside != s.inside {
		// Each process settles by itself: whoever put the presence in may not
		// have lived to. It does so anew for each ConfigMap, since others put it
		// in too (M7).
		s.inside, s.outside, s.settled = inside, now, now.Add(s.settle)
	}
	s.record, s.known, s.met = r, true, true
	s.stage = s.stage.Later(r.Shield.Stage)
	if r.Kind == ownerref.Shield {
		s.presumed = r.Shield.Presumed
	}
	if r.Kind == ownerref.Legacy {
		s.owners = s.owners.Remember(r.Owner)
	}
}

// seen are the legacy owners that must be gone too (M4).
func (s *situation) seen() []ownerref.Owner {
	all := s.record.Shield
	for _, o := range s.owners.Seen {
		all = all.Remember(o)
	}
	return all.Seen
}

// lost says whether a record that was seen ends a term that leads.
func (s *situation) lost(r ownerref.Record) error {
	if s.duty != leading {
		return nil
	}
	switch r.Kind {
	case ownerref.Legacy:
		return fmt.Errorf("%w: legacy pod %s has made the ConfigMap its own", ErrLegacy, r.Owner)
	case ownerref.Foreign:
		if s.stage.Phase == record.PhaseClean {
			return nil
		}
		return fmt.Errorf("%w: %s", ErrLegacy, r.Why)
	case ownerref.Shield, ownerref.Sealed:
		if !s.ours[r.UID] {
			return fmt.Errorf("%w: the ConfigMap was deleted, and somebody else made it anew", ErrLegacy)
		}
	}
	return nil
}
