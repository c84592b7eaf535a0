// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package presence

import (
	"fmt"
	"testing"
	"time"
)

// TestOnlyOthersWithoutAPodRunOut, and each at its own time after it was seen to be renewed.
func TestOnlyOthersWithoutAPodRunOut(t *testing.T) {
	start := time.Unix(1e9, 0)
	own, pods, other := Object{Name: "own"}, Object{Name: "pods", Pod: Pod{"p", "u"}}, Object{Name: "other", Number: 1}
	seen := lapses{}.note([]Object{own, pods, other}, "own", start)
	seen = seen.note([]Object{own, pods, other}, "own", start.Add(lasts/2)) // it was not renewed
	renewed := other
	renewed.Number++
	later := seen.note([]Object{renewed}, "own", start.Add(lasts/2))
	for at, want := range map[time.Duration]string{
		lasts - 1: "true true true true", lasts: "true true false true", lasts * 3 / 2: "true true false false",
	} {
		now := start.Add(at)
		got := fmt.Sprint(seen.counts(own, now), seen.counts(pods, now), seen.counts(other, now), later.counts(renewed, now))
		if got != want {
			t.Errorf("after %v they count: %s, want %s", at, got, want)
		}
	}
}

// TestNotAllActAtOnce.
func TestNotAllActAtOnce(t *testing.T) {
	times := map[time.Duration]bool{}
	for range 100 {
		d := spread(time.Hour)
		if times[d] = true; d < time.Hour || d > 75*time.Minute {
			t.Errorf("it acts after %v", d)
		}
	}
	if len(times) < 50 {
		t.Errorf("100 candidates act at %d moments", len(times))
	}
}
