// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"testing"
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/locks"
)

// TestS6AReadCountsByWhatWasSentFirst, not by the clock: a coarse one shows the same time before a
// conflict and after it. One that was sent before a conflict counts if it explains it.
func TestS6AReadCountsByWhatWasSentFirst(t *testing.T) {
	x := &exchange{observer: rules.NewObserver(rules.Self{})}
	there := func(number uint64) locks.Version { return locks.Version{Number: number, Opaque: true} }
	ask := func(known, shown locks.Version) answer {
		f := &flight{request: request{op: opRead, asOf: known}}
		x.send(f)
		return answer{request: f.request, flight: f, newest: true, snapshot: locks.Snapshot{Version: shown}}
	}
	read := func(shown uint64) answer { return ask(locks.Version{}, there(shown)) }
	gone := func(known locks.Version) answer { return ask(known, locks.Version{}) }
	conflict := func(base uint64) {
		x.refused(answer{request: request{base: locks.Version{Number: base, Opaque: true}}})
	}
	counts := func(a answer, want bool, why string) {
		t.Helper()
		if x.counts(a, false) != want || x.unsure == want {
			t.Errorf("%s: counts is not %v", why, want)
		}
	}

	before, explains := read(10), read(11)
	conflict(10)
	counts(before, false, "it was sent before the conflict, and shows what was to be replaced")
	counts(explains, true, "it was sent before the conflict, and shows what replaced that")
	conflict(10)
	conflict(9)
	counts(before, false, "a later conflict was over an earlier version")
	counts(read(10), true, "it was sent after the conflict")
	conflict(0)
	counts(read(0), true, "it was sent after the conflict over a creation")

	early, late, deleted, recreated := gone(there(9)), gone(there(10)), gone(locks.Version{Number: 11}), gone(locks.Version{Number: 10})
	conflict(10)
	counts(early, false, "the record may have been gone before what was to be replaced was there")
	counts(recreated, false, "a creation met a record that was created later")
	counts(late, true, "the record was deleted after what was to be replaced")
	conflict(10)
	counts(deleted, true, "the deletion was known when the read was sent")

	refused := gone(there(10))
	x.refused(answer{request: request{base: locks.Version{Number: 10}}})
	counts(refused, false, "that the record was deleted says nothing about the one that a creation met")
	refused = gone(locks.Version{Number: 12})
	x.refused(answer{request: request{base: locks.Version{Number: 10}}})
	counts(refused, false, "nor does a later deletion")
	if refused = gone(locks.Version{Number: 10}); x.counts(refused, true) != true || x.unsure {
		t.Error("it was sent after the conflict")
	}
	refused = gone(locks.Version{Number: 10})
	x.refused(answer{request: request{base: locks.Version{Number: 10}}})
	if x.counts(refused, true) || !x.unsure {
		t.Error("that there is still no record is no news about the one that a creation met")
	}
	counts(read(12), true, "it was sent after the conflict over a creation")

	slow := &flight{request: request{op: opRenew}}
	x.send(slow)
	later := read(12)
	x.newest = slow // as after a read that showed that the write had not landed
	conflict(10)
	x.overtake()
	counts(later, false, "it was sent before a write that may have landed was overtaken")
	counts(read(12), true, "it was sent after the doubt")
	conflict(11)
	counts(later, true, "the doubt is settled, and it explains the conflict after that")
}

// TestS6ACreationMayLandOnceItsRecordIsDeleted, so that a release waits for it. An update of an earlier version may not.
func TestS6ACreationMayLandOnceItsRecordIsDeleted(t *testing.T) {
	x := &exchange{observer: rules.NewObserver(rules.Self{})}
	creation := &flight{request: request{op: opAcquire}}
	update := &flight{request: request{op: opRenew, base: locks.Version{Number: 4, Opaque: true}}}
	x.send(creation)
	x.send(update)
	x.observer.Observe(locks.Snapshot{Version: locks.Version{Number: 5, Opaque: true}}, time.Now())
	if x.supersede(); !creation.mayLand() || update.mayLand() {
		t.Errorf("the creation may land: %v, and the update: %v", creation.mayLand(), update.mayLand())
	}
}

// TestS8AnAcquisitionWinsNothingOnceACandidacyOrATermHasBegun, whenever its answer comes.
func TestS8AnAcquisitionWinsNothingOnceACandidacyOrATermHasBegun(t *testing.T) {
	x := &exchange{observer: rules.NewObserver(rules.Self{})}
	late := &answer{flight: &flight{request: request{op: opAcquire}}}
	x.send(late.flight)
	x.begin()
	if x.acquiring() {
		t.Error("it is waited for")
	}
	if x.came(late); late.op == opAcquire || !late.known {
		t.Errorf("its answer counts as that of an operation %s", late.op)
	}
}
