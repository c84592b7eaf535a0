// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package shield

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks/ownerref"
)

func TestM4LegacyOwnersThatOthersMetAreCountedToo(t *testing.T) {
	r := shield(2, false, me)
	r.Seen = []ownerref.Owner{legacy}
	s := holder(r)
	own := ownedBy(ownerref.Owner{Name: "older", UID: "older"}, 3)
	_ = s.observe(own, start)
	_ = s.observe(absent(4), start)
	if seen := s.seen(); len(seen) != 1 || seen[0].UID != own.Owner.UID {
		t.Errorf("of those that it saw it counts %v", seen)
	}
	if seen := holder(r).seen(); len(seen) != 1 || seen[0].UID != legacy.UID {
		t.Errorf("it counts %v", seen)
	}
}

// TestM6AnEventOfThePastDoesNotArmAShield that was read as unarmed since.
func TestM6AnEventOfThePastDoesNotArmAShield(t *testing.T) {
	s := holder(shield(11, false, me))
	if err := s.observe(shield(10, true, me), start); err != nil {
		t.Errorf("the term ends: %v", err)
	}
	s.wants(t, "unarmed at version 11", count)
}

// TestM6AWatchThatBeginsAnewWithAnOlderStateProvesNothing: an API server that has just started shows what its cache has.
func TestM6AWatchThatBeginsAnewWithAnOlderStateProvesNothing(t *testing.T) {
	s := holder(ownedBy(legacy, 20)).in(record.PhaseSealed, 1)
	s.known, s.gap = false, true // it has missed events
	if err := s.observe(sealed(9, 1), start); err != nil || s.record.Kind != ownerref.Legacy {
		t.Errorf("after an older event: %v, and the record is %+v", err, s.record)
	}
	s.wants(t, "after an older event", read)
	_ = s.observe(sealed(21, 1), start)
	s.wants(t, "after a newer event", read)
	_ = s.observeWrite(sealed(22, 1), start)
	s.wants(t, "after a write that was sent before", read)
	_ = s.observe(ownedBy(legacy, 24), start)
	_ = s.observeRead(sealed(23, 1), 22, start, start)
	if s.wants(t, "after a read that an event has overtaken", read); s.record.Kind != ownerref.Legacy {
		t.Errorf("after a read that an event has overtaken the record is %+v", s.record)
	}
	_ = s.observeRead(ownedBy(legacy, 24), 24, start, start)
	s.wants(t, "after a read that shows the newest", count)
	s = &state{me: me, listed: true}
	s.beginTerm(start)
	_ = s.observe(sealed(9, 1), start)
	_ = s.observeRead(absent(0), 0, start, start)
	s.wants(t, "after a read that found nothing, and an older event meanwhile", read)
	s = holder(absent(0)).in(record.PhaseSealed, 1)
	_ = s.observe(sealed(9, 1), start)
	s.wants(t, "after a read that found nothing, and an older event after it", read)
}

// TestM7AShieldMadeAnewIsWaitedForAgain, and so is a recreated presence: another may have
// added it before this process saw it missing. Whoever is put in by another did not write that itself.
func TestM7AShieldMadeAnewIsWaitedForAgain(t *testing.T) {
	again := ownerref.Owner{Name: me.Name, UID: "made-anew"}
	anew := shield(3, true, other, me)
	anew.UID = "recreated"
	for name, happens := range map[string]func(s *state, now time.Time){
		"another ConfigMap": func(s *state, now time.Time) { _ = s.observe(anew, now) },
		"put in by another, before it has the Lease": func(s *state, now time.Time) {
			_ = s.observe(shield(3, true, other), now)
			_ = s.observe(shield(4, true, other, me), now)
		},
		"another presence": func(s *state, now time.Time) {
			s.setPresence(again, now)
			_ = s.observe(shield(3, true, other, again), now)
		},
		"an event that comes after the read": func(s *state, now time.Time) {
			_ = s.observeRead(shield(4, true, other, me), 2, now, now)
			_ = s.observe(shield(3, true, other), now)
		},
	} {
		s := &state{listed: true, recheck: time.Minute}
		s.setPresence(me, start)
		_ = s.observeRead(shield(2, true, other, me), 0, start, start)
		now := start.Add(time.Minute)
		happens(s, now)
		s.beginTerm(now)
		_ = s.observeRead(s.record, s.record.Number, now, now)
		if got := s.rules().next(now); got.do != idle || !got.until.Equal(now.Add(settle)) {
			t.Errorf("%s: it would %v, until %v, want to wait until %v", name, got.do, got.until, now.Add(settle))
		}
	}
}

func TestM8EveryEventCountsWhileLeading(t *testing.T) {
	another := shield(12, true, me)
	another.UID = "another"
	for name, c := range map[string]struct {
		events []ownerref.Record
		ends   bool
	}{
		"a legacy pod takes it":                       {[]ownerref.Record{ownedBy(legacy, 11)}, true},
		"a legacy pod had it for a moment":            {[]ownerref.Record{absent(13), ownedBy(legacy, 12)}, true},
		"an event from before the term":               {[]ownerref.Record{ownedBy(legacy, 9)}, false},
		"it vanished":                                 {[]ownerref.Record{absent(11)}, false},
		"somebody else recreated it":                  {[]ownerref.Record{another}, true},
		"somebody else recreated it, sealed":          {[]ownerref.Record{{Kind: ownerref.Sealed, UID: "another", Number: 12}}, true},
		"it was turned into something else":           {[]ownerref.Record{{Kind: ownerref.Foreign, Number: 11}}, true},
		"another candidate joined":                    {[]ownerref.Record{shield(11, true, me, other)}, false},
		"this candidate's presence was taken from it": {[]ownerref.Record{shield(11, true, other)}, false},
		"it was disarmed by somebody's hand":          {[]ownerref.Record{shield(11, false, me)}, false},
		"it vanished after a gap in the watch":        {[]ownerref.Record{absent(0)}, false},
	} {
		s := leader()
		var err error
		for _, r := range c.events {
			err = errors.Join(err, s.observe(r, start))
		}
		if (err != nil) != c.ends || err != nil && !errors.Is(err, ErrLegacy) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	s := leader()
	_ = s.observe(absent(11), start)
	s.wants(t, "it vanished", putUp)
}

// bare returns the record of a ConfigMap without anything on it.
func bare(uid types.UID, number uint64) ownerref.Record {
	return ownerref.Record{Kind: ownerref.Foreign, UID: uid, Number: number, Why: "nothing says what it is", Bare: true}
}

// TestM8AShieldIsKnownByItsUID if nothing on it says any longer that it is one.
func TestM8AShieldIsKnownByItsUID(t *testing.T) {
	other := bare("shield", 11)
	other.Bare = false
	taken := ownedBy(legacy, 11)
	taken.UID = "shield"

	s := leader()
	if err := s.observe(bare("shield", 11), start); err != nil {
		t.Errorf("the term ends: %v", err)
	}
	s.wants(t, "the own one", join)
	s = holder(sealed(1, 1))
	_ = s.observeRead(bare("shield", 2), 1, start, start)
	s.wants(t, "a sealed one, when read", join)
	for name, events := range map[string][]ownerref.Record{
		"another one":               {bare("another", 11)},
		"one without a UID":         {bare("", 11)},
		"one with something on it":  {other},
		"one that was another's":    {taken, bare("shield", 12)},
		"one that was of other use": {other, bare("shield", 12)},
	} {
		s := leader()
		var err error
		for _, r := range events {
			err = errors.Join(err, s.observe(r, start))
		}
		if !errors.Is(err, ErrLegacy) {
			t.Errorf("%s: the term goes on: %v", name, err)
		}
		s.endTerm()
		s.beginTerm(start)
		_ = s.observeRead(events[len(events)-1], 12, start, start)
		want := count // M4: it is in the shield's place
		if !events[len(events)-1].Bare {
			want = idle
		}
		s.wants(t, name, want)
	}
	s = &state{me: me}
	s.beginTerm(start)
	_ = s.observeRead(bare("", 1), 0, start, start)
	s.wants(t, "nothing was seen before", count)
}

func TestM8AfterAGapOnlyTheConfigMapThatWasShownLastCounts(t *testing.T) {
	again := ownerref.Record{Kind: ownerref.Shield, UID: "again", Number: 11}
	for name, c := range map[string]struct {
		gap  bool
		now  ownerref.Record
		ends bool
	}{
		"the same":                {true, shield(11, true, me), false},
		"gone":                    {true, absent(0), true},
		"another of ours":         {true, again, true},
		"gone, as it was before":  {true, absent(12), true},
		"another of ours, no gap": {false, again, false},
	} {
		s := leader()
		if c.now.Number == 12 {
			_ = s.observe(absent(11), start)
		}
		s.gap, s.ours["again"] = c.gap, true
		if c.gap { // a watch that begins anew hides nothing that was missed
			_ = s.observe(c.now, start)
		}
		if err := s.observeRead(c.now, s.record.Number, start, start); (err != nil) != c.ends || err != nil && !errors.Is(err, ErrLegacy) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestM8AReadWhileLeadingHidesNoEvent that the watch has yet to report.
func TestM8AReadWhileLeadingHidesNoEvent(t *testing.T) {
	s := leader()
	s.ours["again"] = true
	_ = s.observeRead(ownerref.Record{Kind: ownerref.Shield, UID: "again", Number: 14}, 10, start, start)
	if err := s.observe(ownedBy(legacy, 12), start); !errors.Is(err, ErrLegacy) {
		t.Errorf("a legacy pod had it before: %v", err)
	}
}

func TestM9TheLaterPhaseOfLeaseAndConfigMapCounts(t *testing.T) {
	s := holder(sealed(1, 2)) // the Lease was deleted, and its phase with it
	if s.stage.Phase != record.PhaseSealed {
		t.Errorf("the phase is %q", s.stage.Phase)
	}
	s.stage = s.stage.Later(record.Stage{Phase: record.PhaseDual, Step: 1})
	s.wants(t, "an older phase on the Lease", grant)
}

func TestAHistoryThatWentBackIsReadOnce(t *testing.T) {
	s := holder(shield(10, true, me))
	_ = s.observeRead(shield(5, true, me), 10, start.Add(time.Second), start)
	if s.record.Number != 5 || !s.readAt.Equal(start.Add(time.Second)) {
		t.Errorf("it believes version %d, read at %v", s.record.Number, s.readAt)
	}
}

func TestAnAnswerThatAWatchOvertookIsNotBelieved(t *testing.T) {
	s := holder(shield(10, true, me))
	_ = s.observe(absent(12), start)
	_ = s.observeRead(shield(11, true, me), 10, start, start)
	if s.record.Kind != ownerref.Absent {
		t.Errorf("it believes %v", s.record.Kind)
	}
}
