// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package shield

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/legacypods"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/multilock/shield/internal/shieldmap"
	"github.com/zonelect/zonelect/locks/ownerref"
)

var (
	start  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	me     = ownerref.Owner{Name: "lock.me", UID: "me"}
	other  = ownerref.Owner{Name: "lock.other", UID: "other"}
	legacy = ownerref.Owner{Name: "old", UID: "old"}
)

func absent(number uint64) ownerref.Record {
	return ownerref.Record{Kind: ownerref.Absent, Number: number}
}

func ownedBy(pod ownerref.Owner, number uint64) ownerref.Record {
	return ownerref.Record{Kind: ownerref.Legacy, Owner: pod, UID: "legacy", Number: number}
}

func shield(number uint64, armed bool, presences ...ownerref.Owner) ownerref.Record {
	return ownerref.Record{Kind: ownerref.Shield, UID: "shield", Number: number, Presences: presences, Armed: armed}
}

func sealed(number, step uint64) ownerref.Record {
	stage := record.Stage{Phase: "sealed", Step: step}
	return ownerref.Record{Kind: ownerref.Sealed, UID: "shield", Number: number, Armed: true, Stage: stage}
}

// holder returns a candidate that holds the Lease, may not lead yet, and has read r since.
func holder(r ownerref.Record) *state {
	s := &state{me: me, listed: true, poll: time.Second, recheck: time.Minute}
	s.beginTerm(start)
	_ = s.observeRead(r, 0, start.Add(-settle), start.Add(-settle))
	_ = s.observeRead(r, 0, start, start)
	return s
}

// leader returns a candidate that leads under an armed shield at version 10.
func leader() *state {
	s := holder(shield(10, true, me))
	s.startLeading()
	return s
}

// in is s in that phase, at that step.
func (s *state) in(phase record.Phase, step uint64) *state {
	s.stage = record.Stage{Phase: phase, Step: step}
	return s
}

// as is s with that duty.
func (s *state) as(d duty) *state {
	s.duty = d
	return s
}

// tallies records a count at the current record.
func (s *state) tallies(standing ...ownerref.Owner) {
	s.pods = podCount{at: start, of: s.record.Number, uid: s.record.UID}
	alive := legacypods.Verdict{State: legacypods.Alive, MayLead: true}
	for _, o := range standing {
		s.pods.Standing = append(s.pods.Standing, legacypods.Standing{Pod: o, Verdict: alive})
	}
}

func (s *state) wants(t *testing.T, law string, want action) step {
	t.Helper()
	got := s.rules().next(start)
	if got.do != want {
		t.Errorf("%s: it would %v, want %v", law, got.do, want)
	}
	return got
}

func TestM1WithoutAPresenceNothingIsDone(t *testing.T) {
	s := holder(shield(1, true))
	s.me = ownerref.Owner{}
	s.wants(t, "no presence", idle)
	if c := s.rules().permission(); c.Granted {
		t.Error("it may campaign without a presence")
	}
}

func TestM2EachCandidateKeepsItsPresenceAmongTheShieldsOwners(t *testing.T) {
	for name, d := range map[string]duty{"member": member, "adopting": adopting} {
		holder(shield(1, true, other)).as(d).wants(t, name, join)
		holder(shield(1, false, other)).as(d).wants(t, name+", unarmed", join)
	}
	s := leader()
	if err := s.observe(shield(11, true, other), start); err != nil {
		t.Errorf("the term ends: %v", err)
	}
	s.wants(t, "leading", join)
}

// presenceOf returns the presence of a candidate, which its UID puts in order.
func presenceOf(uid string) ownerref.Owner {
	return ownerref.Owner{Name: "presence-" + uid, UID: types.UID(uid)}
}

// TestM2AMemberJoinsWhenItsTurnComes, whatever happens to those before it: a presence does not show that its
// candidate is alive.
func TestM2AMemberJoinsWhenItsTurnComes(t *testing.T) {
	first, second, third := presenceOf("1"), presenceOf("2"), presenceOf("3")
	for _, tc := range []struct {
		name   string
		me     ownerref.Owner
		inside []ownerref.Owner
		turn   time.Duration
	}{
		{"first of all", first, nil, 0},
		{"second", second, nil, 6 * time.Second},
		{"third", third, nil, 12 * time.Second},
		{"third, and the first is in", third, []ownerref.Owner{first}, 6 * time.Second},
		{"third, and the others are in", third, []ownerref.Owner{first, second}, 0},
	} {
		s := &state{listed: true, recheck: time.Minute, shieldKeepers: []ownerref.Owner{third, first, second}}
		s.setPresence(tc.me, start.Add(-time.Hour))
		_ = s.observeRead(shield(1, true, tc.inside...), 0, start, start)
		if got := s.rules().turn().Sub(start); got != tc.turn {
			t.Errorf("%s: its turn comes after %v, want %v", tc.name, got, tc.turn)
		}
		if got := s.rules().next(start.Add(tc.turn - 1)); tc.turn > 0 && (got.do != idle || !got.until.Equal(start.Add(tc.turn))) {
			t.Errorf("%s: before its turn it would %v, until %v", tc.name, got.do, got.until)
		}
		if got := s.rules().next(start.Add(tc.turn)); got.do != join {
			t.Errorf("%s: at its turn it would %v", tc.name, got.do)
		}
		s.beginTerm(start)
		s.readAt = start
		if got := s.rules().next(start); got.do != join {
			t.Errorf("%s: as the Lease's holder it would %v", tc.name, got.do)
		}
	}
}

// TestM2WhoeverJoinsPutsInTheOthersToo, and removes none.
func TestM2WhoeverJoinsPutsInTheOthersToo(t *testing.T) {
	known, unknown := presenceOf("known"), presenceOf("unknown")
	s := holder(shield(1, true, other, unknown))
	s.shieldKeepers = []ownerref.Owner{known, me, other}
	got := s.rules().joined(shieldmap.StateOf(s.record))
	for _, o := range []ownerref.Owner{me, other, known, unknown} {
		if !slices.Contains(got.Presences, o) {
			t.Errorf("%s is not among the owners", o.Name)
		}
	}
	if len(got.Presences) != 4 || !got.Armed {
		t.Errorf("it would write %+v", got)
	}
}

func TestM3AMemberOnlyJoins(t *testing.T) {
	for name, r := range map[string]ownerref.Record{
		"absent": absent(1), "legacy": ownedBy(legacy, 1), "unarmed": shield(1, false, me),
		"armed": shield(1, true, me), "sealed": sealed(1, 1),
	} {
		for _, phase := range []record.Phase{"", record.PhaseLegacy, record.PhaseDual, record.PhaseSealed, record.PhaseClean} {
			s := holder(r).as(member).in(phase, 9)
			s.tallies()
			s.wants(t, name+" in phase "+string(phase), idle)
		}
	}
}

func TestM4TheShieldGoesUpOnlyWhenNoLegacyPodIsLeft(t *testing.T) {
	for name, r := range map[string]ownerref.Record{"absent": absent(1), "legacy": ownedBy(legacy, 1)} {
		s := holder(r)
		s.wants(t, name+", uncounted", count)
		s.tallies(legacy)
		if got := s.wants(t, name+", one left", idle); !strings.Contains(got.why, legacy.Name) || !got.until.Equal(start.Add(s.poll)) {
			t.Errorf("it says %q, until %v", got.why, got.until)
		}
	}
	s := holder(ownedBy(legacy, 1))
	s.tallies()
	s.wants(t, "its owner is gone", remove)
	_ = s.observe(absent(2), start)
	s.wants(t, "counted before the removal", count)
	s.tallies()
	s.wants(t, "none left", putUp)
}

func TestM5TheShieldIsArmedByACountThatCameAfterIt(t *testing.T) {
	s := holder(absent(1))
	s.tallies()
	_ = s.observeWrite(shield(2, false, me), start)
	s.wants(t, "counted before it was up", count)
	s.tallies()
	_ = s.observe(shield(3, false, me, other), start)
	s.wants(t, "counted for an earlier version", count)
	s.tallies()
	s.wants(t, "none left", arm)
	s.tallies(legacy)
	s.wants(t, "one slipped through", remove)
}

func TestM5ALeaderKeepsAnUnarmedShieldUp(t *testing.T) {
	s := leader()
	_ = s.observe(absent(11), start)
	s.ours["shield"] = true
	_ = s.observe(shield(12, false, me), start)
	s.tallies(legacy)
	if got := s.wants(t, "one left", idle); got.why == "" {
		t.Error("it does not say why")
	}
}

func TestM6WorkBeginsOnlyUnderAnArmedShieldWithTheOwnPresenceReadLive(t *testing.T) {
	s := &state{me: me, record: shield(1, true, me), known: true, inside: true}
	s.readAt = start.Add(-time.Second)
	s.beginTerm(start)
	s.wants(t, "read before the Lease was won", read)
	_ = s.observeRead(shield(1, true, me), 1, start, start)
	s.wants(t, "read since", grant)
	s = holder(sealed(1, 1))
	s.wants(t, "sealed", grant)
	for name, r := range map[string]ownerref.Record{
		"unarmed": shield(1, false, me), "without this candidate's presence": shield(1, true, other), "absent": absent(1),
		"legacy": ownedBy(legacy, 1), "foreign": {Kind: ownerref.Foreign, Number: 1},
	} {
		s := holder(r)
		s.tallies()
		if got := s.rules().next(start); got.do == grant {
			t.Errorf("%s: the work may begin", name)
		}
	}
}

func TestM8NoWorkBeginsBeforeTheConfigMapIsWatched(t *testing.T) {
	s := holder(shield(1, true, me))
	s.neverWatched = true
	s.wants(t, "the first watch is not open", idle)
	s.neverWatched = false
	s.wants(t, "it is", grant)
}

func TestM7WorkWaitsUntilAnOldCollectorHasSettled(t *testing.T) {
	s := holder(shield(1, true, me))
	s.settled = start.Add(5 * time.Second)
	if got := s.wants(t, "too early", idle); !got.until.Equal(s.settled) {
		t.Errorf("it looks again at %v", got.until)
	}
	if got := s.rules().next(s.settled); got.do != read {
		t.Errorf("settled, unread: %v", got.do)
	}
	_ = s.observeRead(shield(1, true, me), 1, s.settled, s.settled)
	if got := s.rules().next(s.settled); got.do != grant {
		t.Errorf("settled and read: %v", got.do)
	}
}

// TestM4AnEmptyConfigMapWithoutAnOwnerGivesWayOnceNoLegacyPodIsLeft: no legacy program takes it,
// so that nobody leads by it.
func TestM4AnEmptyConfigMapWithoutAnOwnerGivesWayOnceNoLegacyPodIsLeft(t *testing.T) {
	s := holder(bare("restored", 3))
	s.wants(t, "at first", count)
	s.tallies(legacy)
	if got := s.rules().next(start.Add(s.poll - 1)); got.do != idle || !strings.Contains(got.why, "old") {
		t.Errorf("beside a legacy pod it would %v, because %q", got.do, got.why)
	}
	s.tallies()
	s.wants(t, "without legacy pods", remove)
	s.setRecord(absent(3), start)
	s.tallies()
	s.wants(t, "when it is gone", putUp)
}

func TestM9OnlyAnArmedShieldIsSealed(t *testing.T) {
	holder(shield(1, true, me)).in(record.PhaseSealed, 2).wants(t, "armed", seal)
	s := holder(shield(1, false, me)).in(record.PhaseSealed, 2)
	s.wants(t, "unarmed, uncounted", count)
	s.tallies(legacy)
	s.wants(t, "unarmed, one left", remove)
	holder(absent(1)).in(record.PhaseSealed, 2).wants(t, "absent", count)
}

func TestM10TheLeaderGivesASealedShieldBackToThePresences(t *testing.T) {
	s := leader()
	_ = s.observe(sealed(11, 2), start)
	s.wants(t, "sealed", idle)
	s.stage = record.Stage{Phase: record.PhaseDual, Step: 3}
	s.wants(t, "rolled back", unseal)
}

func TestM10InPhaseLegacyTheShieldGoesWithItsLeader(t *testing.T) {
	s := leader().in(record.PhaseLegacy, 3)
	if s.rules().permission().Granted {
		t.Error("it may campaign")
	}
	s.wants(t, "while the work stops", idle)
	s.duty = leaving
	s.wants(t, "the work has stopped", remove)
	_ = s.observe(absent(11), start)
	s.wants(t, "removed", leave)
}

func TestM10AShieldThatIsLeftInPhaseLegacyIsTakenDownByWhoeverGetsTheLease(t *testing.T) {
	for name, r := range map[string]ownerref.Record{
		"shield": shield(1, true, other), "unarmed": shield(1, false, other), "sealed": sealed(1, 1),
		"absent": absent(1), "legacy": ownedBy(legacy, 1), "foreign": {Kind: ownerref.Foreign, Number: 1},
	} {
		s := holder(r).in(record.PhaseLegacy, 3)
		want := idle
		if s.hasShield() {
			want = remove
		}
		s.wants(t, name, want)
		for _, d := range []duty{member, adopting} {
			if s.duty = d; s.rules().permission().Granted != s.hasShield() {
				t.Errorf("%s: that it may campaign is %v", name, s.rules().permission().Granted)
			}
		}
	}
}

func TestM10WhoeverLeadsInPhaseLegacyKeepsTheShieldUntilItsWorkHasStopped(t *testing.T) {
	s := leader().in(record.PhaseLegacy, 3)
	_ = s.observe(absent(11), start)
	s.wants(t, "it vanished", putUp)
}

func TestM10WorkBeginsOnlyUnderAShieldThatCarriesThePhase(t *testing.T) {
	s := holder(shield(1, true, me)).in(record.PhaseDual, 3)
	s.wants(t, "it is of an earlier dual phase", notePhase)
	now := shield(2, true, me)
	now.Stage = s.stage
	_ = s.observeWrite(now, start)
	s.wants(t, "noted", grant)
}

func TestM10CleanRemovesTheConfigMapAndNothingElse(t *testing.T) {
	for name, c := range map[string]struct {
		r    ownerref.Record
		want action
	}{
		"shield":  {shield(1, true, me), remove},
		"sealed":  {sealed(1, 1), remove},
		"absent":  {absent(1), grant},
		"foreign": {ownerref.Record{Kind: ownerref.Foreign, Number: 1}, grant},
		"legacy":  {ownedBy(legacy, 1), idle},
	} {
		holder(c.r).in(record.PhaseClean, 5).wants(t, name, c.want)
	}
}

// presumed returns the record of a shield that was armed although the legacy pod exists.
func presumed() ownerref.Record {
	r := shield(10, true, me)
	r.Presumed = []ownerref.Owner{legacy}
	return r
}

// presuming returns a leader under such a shield.
func presuming() *state {
	s := holder(presumed())
	s.tallies()
	s.startLeading()
	return s
}

func unreachable(heard bool) []legacypods.Standing {
	return []legacypods.Standing{{Pod: legacy, Heard: heard, Verdict: legacypods.Verdict{State: legacypods.Unreachable, MayLead: true}}}
}

func TestM11APodThatWasPresumedGoneAndIsHeardOfEndsTheTermAndTheShield(t *testing.T) {
	s := presuming()
	if err := s.observeCount(podCount{at: start, Count: legacypods.Count{Standing: unreachable(false)}}); err != nil {
		t.Errorf("unheard: %v", err)
	}
	if err := s.observeCount(podCount{at: start, Count: legacypods.Count{Standing: unreachable(true)}}); !errors.Is(err, ErrLegacy) {
		t.Errorf("heard: %v", err)
	}
	s.duty = adopting
	s.wants(t, "the next holder", remove)
}

func TestM11ALeaderWatchesOverPodsThatArePresumedGone(t *testing.T) {
	s := presuming()
	s.pods = podCount{at: start, Count: legacypods.Count{Presumed: unreachable(false)}}
	if got := s.wants(t, "just counted", idle); !got.until.Equal(start.Add(s.recheck)) || got.why == "" {
		t.Errorf("%+v", got)
	}
	if got := s.rules().next(start.Add(s.recheck)); got.do != count {
		t.Error(got)
	}
	s.pods = podCount{at: start}
	s.wants(t, "it is gone indeed", forget)
}

func TestM11NothingIsSealedWhileAPodIsPresumedGone(t *testing.T) {
	s := presuming().in(record.PhaseSealed, 2)
	s.pods = podCount{at: start, Count: legacypods.Count{Presumed: unreachable(false)}}
	s.wants(t, "presumed", idle)
}

func TestM11AHolderCountsBeforeItLeadsBesidePodsThatArePresumedGone(t *testing.T) {
	s := presuming()
	s.beginTerm(start)
	_ = s.observeRead(s.record, 10, start, start)
	s.wants(t, "uncounted", count)
}

func TestASealThatWasRestoredFromACopyIsArmedAnew(t *testing.T) {
	r := sealed(1, 1)
	r.Armed = false
	s := holder(r)
	s.wants(t, "restored", count)
	s.tallies()
	s.wants(t, "none left", arm)
}

func TestAForeignConfigMapIsLeftAlone(t *testing.T) {
	s := holder(ownerref.Record{Kind: ownerref.Foreign, Number: 1, Why: "it holds data"})
	s.tallies()
	if got := s.wants(t, "foreign", idle); got.why != "it holds data" {
		t.Errorf("it says %q", got.why)
	}
}

func TestACandidateInModeDualDoesNotCampaignBeyondIt(t *testing.T) {
	s := holder(sealed(1, 1))
	s.mode = multilock.Dual
	if s.rules().permission().Granted {
		t.Error("it may campaign")
	}
}

// condemned returns r, deleted and kept by a finalizer.
func condemned(r ownerref.Record) ownerref.Record {
	r.Condemned, r.Object = true, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{"example.com/hold"}}}
	return r
}

// TestM5AConfigMapThatIsBeingDeletedIsNoShield: it stays only until its finalizers are gone.
func TestM5AConfigMapThatIsBeingDeletedIsNoShield(t *testing.T) {
	for name, tc := range map[string]struct {
		s      *state
		silent bool
	}{
		"not armed":                      {holder(condemned(shield(1, false, me))), false},
		"armed":                          {holder(condemned(shield(1, true, me))), false},
		"no owner of it":                 {holder(condemned(shield(1, true, other))), false},
		"a member":                       {holder(condemned(shield(1, true, other))).as(member).in(record.PhaseDual, 9), true},
		"sealed":                         {holder(condemned(sealed(1, 1))), false},
		"sealed, on the way back":        {holder(condemned(sealed(1, 1))).as(adopting).in(record.PhaseDual, 9), false},
		"to be sealed by a leader":       {holder(condemned(shield(1, true, me))).as(leading).in(record.PhaseSealed, 9), false},
		"to be armed by a leader":        {holder(condemned(shield(1, false, me))).as(leading).in(record.PhaseDual, 9), false},
		"to be taken down":               {holder(condemned(shield(1, true, me))).as(adopting).in(record.PhaseLegacy, 9), true},
		"to be cleaned away by a leader": {holder(condemned(sealed(1, 1))).as(leading).in(record.PhaseClean, 9), true},
	} {
		tc.s.tallies()
		got := tc.s.wants(t, name, idle)
		if says := strings.Contains(got.why, "stays until its finalizers are gone: example.com/hold"); says == tc.silent {
			t.Errorf("%s: it waits because %q", name, got.why)
		}
	}
	holder(condemned(sealed(1, 1))).as(adopting).in(record.PhaseClean, 9).wants(t, "in phase clean the work needs none", grant)
	holder(condemned(shield(1, true, me))).as(leaving).in(record.PhaseLegacy, 9).wants(t, "a leader that leaves can do no more", leave)
	if holder(condemned(shield(1, true, me))).as(member).in(record.PhaseLegacy, 9).rules().permission().Granted {
		t.Error("a candidate campaigns to take down what was taken down")
	}
	s := leader()
	if err := s.observe(condemned(shield(11, true, me)), start); err != nil {
		t.Errorf("a leader's term ends: %v", err)
	}
	s.wants(t, "a leader goes on", idle)
	if err := s.observe(absent(12), start); err != nil {
		t.Errorf("a leader's term ends: %v", err)
	}
	s.wants(t, "M8: when it is gone", putUp)
}

// TestM11ALeaderUnderACondemnedShieldFollowsWhomItPresumesGone.
func TestM11ALeaderUnderACondemnedShieldFollowsWhomItPresumesGone(t *testing.T) {
	s := holder(condemned(presumed()))
	s.startLeading()
	s.wants(t, "a leader", count)
}
