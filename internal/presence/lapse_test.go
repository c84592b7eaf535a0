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

// counting is how many of all count.
func counting(l lapses, all []Object, now time.Time) (n int) {
	for _, o := range all {
		if l.counts(o, now) {
			n++
		}
	}
	return n
}

// TestACrowdRenewsNoOftenerThanAFew: each renewal is news for all. Those that have ended are not part of it.
func TestACrowdRenewsNoOftenerThanAFew(t *testing.T) {
	start := time.Unix(1e9, 0)
	for n, want := range map[int]time.Duration{1: time.Minute, 20: time.Minute, 100: 5 * time.Minute, 500: 25 * time.Minute, 5000: 36 * time.Minute} {
		l := lapses{}.note(crowdOf(n, 1, leastLasts), "", start)
		if got := l.period(start); got != want {
			t.Errorf("%d presences are renewed every %v, want %v", n, got, want)
		}
		if got := l.period(start.Add(time.Hour)); got != time.Minute {
			t.Errorf("beside %d that have ended one is renewed every %v", n, got)
		}
		all := crowdOf(n, 2, periods*want)
		l = l.note(all, "", start)
		for at, counts := range map[time.Duration]int{periods*want - 1: n, periods * want: 0} {
			if live := counting(l, all, start.Add(at)); live != counts {
				t.Errorf("%v after their renewal %d of %d count", at, live, n)
			}
		}
	}
	times := map[time.Duration]bool{}
	for range 100 {
		d := spread(time.Hour)
		if times[d] = true; d < time.Hour || d > 75*time.Minute {
			t.Errorf("the next renewal comes after %v", d)
		}
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

// TestOnlyOthersWithoutAPodRunOut.
func TestOnlyOthersWithoutAPodRunOut(t *testing.T) {
	now := time.Unix(1e9, 0)
	all := []Object{{Name: "own"}, {Name: "pods", Pod: Pod{"p", "u"}}}
	if n := counting((lapses{}).note(all, "own", now), all, now.Add(time.Hour)); n != 2 {
		t.Errorf("%d of them count", n)
	}
}
