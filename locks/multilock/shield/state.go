// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package shield

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/legacypods"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/multilock/shield/internal/shieldmap"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// state is what one candidate knows. Its methods record what the candidate has seen or
// done; [rules] decide from it. Both are pure: they do no I/O and read no clock.
type state struct {
	stage         record.Stage     // the latest phase change that was seen on either object
	me            ownerref.Owner   // this candidate's presence; zero until it exists
	shieldKeepers []ownerref.Owner // the presences of all known candidates that keep a shield
	listed        bool             // the other candidates have been reported
	record        ownerref.Record  // the ConfigMap in the legacy lock's place, as far as is known; zero before it was read
	presumed      []ownerref.Owner // those in the last shield that was seen
	known         bool             // record is current
	foundNothing  bool             // record is of a read that found nothing, which has no version
	owners        shieldmap.State  // its Seen lists the legacy owners that were seen
	readAt        time.Time        // when the newest read of record was sent

	mode multilock.Mode

	duty         duty
	since        time.Time          // when the duty as a holder began
	inside       bool               // this candidate's presence was seen among the owners
	outside      time.Time          // if not inside: since when, on the current ConfigMap
	settled      time.Time          // the candidate does not lead before a read after this time
	ours         map[types.UID]bool // the ConfigMaps that this term leads under, or has created
	floor        uint64             // the version of M6's read: only later events count
	shown        types.UID          // the ConfigMap that the watch showed last
	expired      bool               // the watch misses events until the next one is open
	gap          bool               // events were missed since the ConfigMap was shown
	marked       types.UID          // the ConfigMap that was a shield when last recognized, whatever is on it now
	neverWatched bool               // the server has never accepted a watch
	watchRefusal string             // why a watch is not permitted; empty if it may be permitted
	pods         podCount
	poll         time.Duration // how often a holder that waits counts
	recheck      time.Duration // how often a leader under an unarmed shield counts
}

// settle is how long a candidate waits for what the garbage collector has decided (M7).
const settle = 5 * time.Second

// podCount is the newest count of legacy pods, and the version of the record at which it was taken.
type podCount struct {
	at  time.Time // zero if none was taken in this term
	of  uint64
	uid types.UID
	legacypods.Count
}

// returned returns a pod that was presumed gone but is not; nil if there is none.
func (c podCount) returned(presumed []ownerref.Owner) *legacypods.Standing {
	for _, p := range presumed {
		for _, s := range c.Standing {
			if s.Pod.UID == p.UID && s.Heard {
				return &s
			}
		}
	}
	return nil
}

// left returns those that were presumed gone and still exist.
func (c podCount) left(presumed []ownerref.Owner) []ownerref.Owner {
	all := slices.Concat(c.Standing, c.Presumed)
	return slices.DeleteFunc(slices.Clone(presumed), func(p ownerref.Owner) bool {
		return !slices.ContainsFunc(all, func(s legacypods.Standing) bool { return s.Pod.UID == p.UID })
	})
}

// beginTerm begins a term: the record must be read again, and the pods counted again.
func (s *state) beginTerm(now time.Time) {
	s.duty, s.since, s.pods = adopting, now, podCount{}
}

// startLeading marks the moment from which the work may run.
func (s *state) startLeading() {
	s.duty = leading
	s.shown = s.record.UID
	s.ours = map[types.UID]bool{s.record.UID: true}
}

// endTerm clears the term's state.
func (s *state) endTerm() { s.duty, s.ours = member, nil }

// setPresence records this candidate's presence. A new presence has not been seen among
// the owners.
func (s *state) setPresence(me ownerref.Owner, now time.Time) {
	if me != s.me {
		s.me, s.outside, s.inside = me, now, false
	}
}

// hasShield reports whether a shield exists, sealed or not, and stays. One that was deleted
// already, and that finalizers keep, does not: nobody can take it down or rely on it.
func (s *state) hasShield() bool {
	return !s.record.Condemned && (s.record.Kind == ownerref.Shield || s.record.Kind == ownerref.Sealed)
}

// isCounted reports whether the newest count is of the current record, and when it was
// taken.
func (s *state) isCounted() (bool, time.Time) {
	c := s.pods
	return !c.at.IsZero() && c.of == s.record.Number && c.uid == s.record.UID, c.at
}

// waitingFor names the legacy pods that may still lead, and says why M11 could not be applied.
func (c podCount) waitingFor() string {
	const most = 3
	var names []string
	for _, p := range c.Standing[:min(len(c.Standing), most)] {
		names = append(names, fmt.Sprintf("%s (%s)", p.Pod.Name, p.Verdict.State))
	}
	if more := len(c.Standing) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	why := "legacy pods that may still lead: " + strings.Join(names, ", ")
	if c.Note != "" {
		why += "; " + c.Note
	}
	return why
}

// observeCount records a count. It returns the error that ends the term if a legacy pod
// that was presumed gone is not.
func (s *state) observeCount(c podCount) error {
	s.pods = c
	if p := c.returned(s.record.Presumed); p != nil && s.duty == leading {
		return fmt.Errorf("%w: the node of legacy pod %s, which was presumed gone, is heard from again", ErrLegacy, p.Pod)
	}
	return nil
}

// observe records an event of the watch. It returns the error that ends the term if the
// lock was lost: for a leader every event counts, not only the newest (M8). A watch may show
// an older state first, so what is not known stays so until a read has shown it (M6).
func (s *state) observe(r ownerref.Record, now time.Time) error {
	if !s.gap {
		s.shown = r.UID
	}
	s.known = s.known && (s.duty == member || !s.foundNothing) // the event may show what was before that read
	return s.observeNewer(r, now)
}

// observeWrite records the result of this candidate's write, or of a read that the watch has overtaken.
func (s *state) observeWrite(r ownerref.Record, now time.Time) error {
	s.known = s.known || !s.gap
	return s.observeNewer(r, now)
}

func (s *state) observeNewer(r ownerref.Record, now time.Time) error {
	r = s.identify(r)
	switch {
	case r.Number > s.record.Number:
		s.setRecord(r, now)
	case r.UID == s.record.UID && !r.Has(s.me):
		s.settled = now.Add(settle) // its presence was out, although a later version has it in
	}
	if r.Number <= s.floor {
		return nil
	}
	return s.lost(r)
}

// observeRead records the answer to a read. sent is when it was sent, and asOf the newest
// version known then.
func (s *state) observeRead(r ownerref.Record, asOf uint64, sent, now time.Time) error {
	r = s.identify(r)
	if r.Kind == ownerref.Absent {
		if s.record.Number > asOf {
			return nil // nobody knows which came first: the watch may show the past
		}
		r.Number = asOf
	}
	s.readAt = sent
	if s.record.Number > max(asOf, r.Number) {
		return s.observeWrite(r, now)
	}
	s.setRecord(r, now)
	s.known, s.foundNothing = true, r.Kind == ownerref.Absent
	if s.duty == adopting {
		s.floor = r.Number
	}
	if err := s.lost(r); err != nil {
		return err
	}
	gap := s.gap
	s.gap = s.expired
	if gap && s.duty == leading && s.stage.Phase != record.PhaseClean && (r.UID != s.shown || r.Kind == ownerref.Absent) {
		return fmt.Errorf("%w: the watch missed events, and the ConfigMap is not the one that it showed last: "+
			"a legacy pod may have held it meanwhile", ErrLegacy)
	}
	s.shown = r.UID
	return nil
}

// identify recognizes a shield by its UID if somebody has removed all its owners and
// annotations: while that ConfigMap exists, no legacy pod can have created another, and
// all legacy pods wait at one without an owner.
func (s *state) identify(r ownerref.Record) ownerref.Record {
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

// setRecord makes r the newest. It remembers every legacy owner that was ever seen,
// because that owner must be gone before this candidate leads (M4).
func (s *state) setRecord(r ownerref.Record, now time.Time) {
	inside := r.Has(s.me)
	if r.UID != s.record.UID || inside != s.inside {
		// Each process waits itself, because the one that added the presence
		// may have died first. It does so again for each ConfigMap, since others add the
		// presence too (M7).
		s.inside, s.outside, s.settled = inside, now, now.Add(settle)
	}
	s.record, s.foundNothing = r, false
	s.stage = s.stage.Later(r.Stage)
	if r.Kind == ownerref.Shield {
		s.presumed = r.Presumed
	}
	if r.Kind == ownerref.Legacy {
		s.owners = s.owners.Remember(r.Owner)
	}
}

// seen returns the legacy owners that must be gone too (M4).
func (s *state) seen() []ownerref.Owner {
	all := shieldmap.StateOf(s.record)
	for _, o := range s.owners.Seen {
		all = all.Remember(o)
	}
	return all.Seen
}

// lost returns the error that ends the term if this candidate leads and the record r
// means that the lock was lost.
func (s *state) lost(r ownerref.Record) error {
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
			return fmt.Errorf("%w: the ConfigMap was deleted, and somebody else recreated it", ErrLegacy)
		}
	}
	return nil
}
