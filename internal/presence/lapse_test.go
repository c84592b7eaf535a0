// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package presence

import (
	"fmt"
	"testing"
	"time"
)

// crowdOf are so many presences without a pod, as they are written at a moment.
func crowdOf(n int, number uint64, lasts time.Duration) (all []Object) {
	for i := range n {
		o := podless(fmt.Sprint(i))
		o.Name, o.Number, o.Lasts = o.name(), number, int32(lasts/time.Second)
		all = append(all, o)
	}
	return all
}

// TestACrowdRenewsNoOftenerThanAFew, up to as many as a roster keeps: each renewal is news for all. Those
// that have ended are not part of it.
func TestACrowdRenewsNoOftenerThanAFew(t *testing.T) {
	start := time.Unix(1e9, 0)
	for n, want := range map[int]time.Duration{1: time.Minute, 20: time.Minute, 100: 5 * time.Minute, most: 15 * time.Minute, 5000: 36 * time.Minute} {
		var l lapses
		l.note(crowdOf(n, 1, leastLasts), "", start)
		if got := l.period(start); got != want {
			t.Errorf("%d presences are renewed every %v, want %v", n, got, want)
		}
		if got := l.period(start.Add(time.Hour)); got != time.Minute {
			t.Errorf("beside %d that have ended one is renewed every %v", n, got)
		}
		all := crowdOf(n, 2, periods*want)
		l.note(all, "", start)
		if got := all[0].lasts(); got != periods*want {
			t.Errorf("they count for %v, want %v", got, periods*want)
		}
		if counts := len(l.counting(all, start.Add(periods*want-1))); counts != n {
			t.Errorf("%d of %d count before that", counts, n)
		}
		if counts := len(l.counting(all, start.Add(periods*want))); counts != 0 {
			t.Errorf("%d of %d count after it", counts, n)
		}
		if d := renewAfter(want); d < want || d > want*5/4 {
			t.Errorf("the next renewal comes after %v", d)
		}
	}
	times := map[time.Duration]bool{}
	for range 100 {
		times[renewAfter(time.Hour)] = true
	}
	if len(times) < 50 {
		t.Errorf("100 candidates renew at %d moments", len(times))
	}
}

// TestAPresenceCannotSayThatItCountsForEver, nor for no time at all.
func TestAPresenceCannotSayThatItCountsForEver(t *testing.T) {
	for says, want := range map[int32]time.Duration{-1: leastLasts, 0: leastLasts, 1 << 30: mostLasts, 600: 10 * time.Minute} {
		if got := (Object{Lasts: says}).lasts(); got != want {
			t.Errorf("one that says %d s counts for %v, want %v", says, got, want)
		}
	}
}

// alone is one presence without a pod that counts for ten minutes from a moment on.
func alone(start time.Time) (*lapses, []Object) {
	l := &lapses{}
	all := []Object{{Name: "a", Identity: "a", Renewed: 1, Number: 1, Lasts: 600}}
	l.note(all, "", start)
	return l, all
}

// TestAGapInTheWatchEndsNobody: whoever counted has a minute more, in which renewals that were missed
// come in. Whoever did not count stays away.
func TestAGapInTheWatchEndsNobody(t *testing.T) {
	start := time.Unix(1e9, 0)
	for after, want := range map[time.Duration]time.Duration{
		0: 10 * time.Minute, 9 * time.Minute: 10 * time.Minute, 10*time.Minute - 1: 11*time.Minute - 1, 10 * time.Minute: 10 * time.Minute, time.Hour: 10 * time.Minute,
	} {
		l, all := alone(start)
		l.grace(start.Add(after), time.Minute)
		for at, counts := range map[time.Duration]int{want - 1: 1, want: 0} {
			if got := len(l.counting(all, start.Add(at))); got != counts {
				t.Errorf("after a gap at %v, %d count at %v", after, got, at)
			}
		}
	}
}

// TestWhoseRemovalFailsIsTriedMoreAndMoreSeldom, and at once less seldom when it was renewed.
func TestWhoseRemovalFailsIsTriedMoreAndMoreSeldom(t *testing.T) {
	const spread = 40 * time.Second
	now := time.Unix(1e9, 0)
	l, all := alone(now)
	tries := func(within time.Duration) (at []time.Duration) {
		for began := now; now.Sub(began) < within; {
			gone, next := l.due(all, spread, now)
			if len(gone) > 0 {
				at = append(at, now.Sub(began))
			}
			if next <= 0 {
				t.Fatalf("it looks again after %v", next)
			}
			now = now.Add(next)
		}
		return at
	}
	first := tries(24 * time.Hour)
	if len(first) < 24 || len(first) > 33 || first[0] != 10*time.Minute+spread || first[1]-first[0] != spread || first[2]-first[1] != 2*spread {
		t.Errorf("%d tries in a day, at %v", len(first), first)
	}
	all[0].Number++
	l.note(all, "", now)
	l.note(all, "", now.Add(time.Minute)) // it is what it was
	if again := tries(15 * time.Minute); len(again) < 2 || again[0] != first[0] {
		t.Errorf("after a renewal it is tried at %v", again)
	}
}

// TestOnlyOthersWithoutAPodRunOut.
func TestOnlyOthersWithoutAPodRunOut(t *testing.T) {
	l, now := lapses{}, time.Unix(1e9, 0)
	all := []Object{{Name: "own"}, {Name: "pods", Pod: Pod{"p", "u"}}}
	l.note(all, "own", now)
	if gone, next := l.due(all, time.Minute, now.Add(time.Hour)); len(gone) > 0 || next >= 0 || len(l.counting(all, now.Add(time.Hour))) != 2 {
		t.Errorf("%v run out, and others after %v", gone, next)
	}
}
