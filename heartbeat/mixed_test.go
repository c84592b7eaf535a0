// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestACandidateWithoutAHeartbeatWaitsWhileOneKeepsTheLock, and says so; also after its process died.
// It takes the lock when that is released.
func TestACandidateWithoutAHeartbeatWaitsWhileOneKeepsTheLock(t *testing.T) {
	led(t, 1, func(w *world, a *process) {
		b := w.process("b", false)
		plain := b.campaignPlainly("lock-0")
		elapse(2 * w.Timing.LeaseDuration)
		if why := plain.Status().Waiting; b.leads() > 0 || !strings.Contains(why, "heart-a") {
			t.Errorf("b leads %d and waits for %q", b.leads(), why)
		}
		a.cut(true)
		elapse(3 * w.Timing.LeaseDuration)
		if b.leads() > 0 {
			t.Error("b took the lock from a heartbeat whose renewals it cannot see")
		}
		a.heal()
		elapse(2 * w.Timing.LeaseDuration)
		a.stop()
		elapse(2 * time.Second)
		if why := plain.Status().Waiting; b.leads() != 1 || why != "" {
			t.Errorf("after the release b leads %d and waits for %q", b.leads(), why)
		}
	})
}

// TestAHeartbeatTakesALockThatACandidateWithoutOneHeld, once that has released it or let it expire.
func TestAHeartbeatTakesALockThatACandidateWithoutOneHeld(t *testing.T) {
	for what, c := range map[string]struct {
		ends  func(*process)
		after time.Duration
	}{
		"released": {(*process).stop, 2 * time.Second},
		"expired":  {func(b *process) { b.cut(true) }, 18 * time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			scenario(t, func(w *world) {
				b := w.process("b", false)
				b.campaignPlainly("lock-0")
				elapse(10 * time.Second)
				a := w.process("a", true)
				a.campaign(1)
				elapse(10 * time.Second)
				if a.leads() != 0 || b.leads() != 1 {
					t.Fatalf("a leads %d, b leads %d", a.leads(), b.leads())
				}
				c.ends(b)
				elapse(c.after)
				if a.leads() != 1 {
					t.Error("a does not lead")
				}
				b.heal()
				elapse(time.Minute)
			})
		})
	}
}

// TestCandidatesOfBothKindsNeverLeadTogether, whatever goes wrong. scenario checks it. A candidate with
// a heartbeat leads each lock soon after all is well.
func TestCandidatesOfBothKindsNeverLeadTogether(t *testing.T) {
	eachSeed(t, "MIXED", 4, func(t *testing.T, seed uint64) {
		scenario(t, func(w *world) {
			c := &chaos{world: w, random: rand.New(rand.NewPCG(seed, 3))}
			w.lingers = true
			for _, id := range []string{"a", "b", "c", "d"} {
				p := w.process(id, id < "c")
				for i := range 4 {
					if name := "lock-" + string(rune('0'+i)); id < "c" {
						p.campaignFor(name)
					} else {
						p.campaignPlainly(name)
					}
				}
				elapse(c.within(3 * time.Second))
			}
			for range 30 {
				w.note("%s", c.strike())
				elapse(c.within(12 * time.Second))
			}
			for _, p := range w.processes {
				p.heal()
			}
			elapse(90 * time.Second)
			w.eachIsLedOnce(4)
		})
	})
}
