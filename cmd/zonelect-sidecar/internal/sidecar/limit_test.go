// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sidecar

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
)

var (
	start0 = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC) // without a monotonic reading
	tenths = election.Timing{StopGrace: 5 * time.Second, StopTimeout: 30 * time.Second}
)

// after is so many seconds after the start.
func after(seconds float64) time.Time {
	return start0.Add(time.Duration(seconds * float64(time.Second)))
}

func TestACommandIsKilledAFifthOfItsTimeBeforeTheLibraryCountsOnItsEnd(t *testing.T) {
	lost := fmt.Errorf("%w: in words", election.ErrLost)
	for name, tc := range map[string]struct {
		left  time.Duration // of the trust, at the start
		cause error         // asked to stop at the start, unless nil
		later time.Duration // of the trust, at the last moment
		early float64       // it may run then
		late  float64       // it must be killed then
	}{
		"a term goes on":                   {left: 10 * time.Second, later: time.Second, early: 1e6},
		"trust ran out when it was known":  {left: 10 * time.Second, early: 13.9, late: 14},
		"trust ran out, and it was asked":  {cause: lost, early: 3.9, late: 4},
		"lost to another before that":      {left: 10 * time.Second, cause: lost, early: 3.9, late: 4},
		"a stop in good order":             {left: 10 * time.Second, cause: election.ErrHandedOver, later: time.Second, early: 23.9, late: 24},
		"trust runs out in such a stop":    {left: 10 * time.Second, cause: election.ErrStopped, early: 13.9, late: 14},
		"trust ran out just as it stopped": {cause: election.ErrStopped, early: 3.9, late: 4},
	} {
		at := func(seconds float64) bool {
			l := limit{timing: tenths}
			l.trust(start0, tc.left)
			if tc.cause != nil {
				l.ask(start0, tc.cause)
			}
			l.trust(after(seconds), tc.later)
			return l.kill(after(seconds))
		}
		if at(tc.early) {
			t.Errorf("%s: it is killed after %v s", name, tc.early)
		}
		if tc.late > 0 && !at(tc.late) {
			t.Errorf("%s: it runs after %v s", name, tc.late)
		}
	}
}

func TestTrustThatEndedWhileThisProcessDidNotRunCountsFromItsEnd(t *testing.T) {
	l := limit{timing: tenths}
	l.trust(start0, 10*time.Second)
	l.trust(after(60), -50*time.Second)
	l.ask(after(60), election.ErrLost)
	if !l.kill(after(60)) {
		t.Error("a command has a grace that was over before this process ran again")
	}
}

// TestTrustThatIsTakenAwayWhileACommandStopsInGoodOrderLeavesItTheGraceFromThen: another may have the lock.
func TestTrustThatIsTakenAwayWhileACommandStopsInGoodOrderLeavesItTheGraceFromThen(t *testing.T) {
	l := limit{timing: tenths}
	l.trust(start0, 10*time.Second)
	l.ask(start0, election.ErrStopped)
	l.trust(after(1), 0)
	if l.kill(after(4.9)) || !l.kill(after(5)) {
		t.Errorf("its grace counts from %v, want a second after %v", l.until, start0)
	}
}

func TestTimeInWhichTheMachineWasSuspendedCounts(t *testing.T) {
	// Go's monotonic clock stands still meanwhile: both moments have the same reading.
	now := time.Now()
	then := now.Add(-time.Hour)
	if got := elapsed(then.Round(0), now); got < time.Hour {
		t.Errorf("%v have elapsed by the wall clock, want an hour", got)
	}
	if got := elapsed(now, now.Add(time.Second)); got < time.Second {
		t.Errorf("%v have elapsed, want a second", got)
	}
}

// TestNoCommandOutlivesItsTrustByTheStopGrace: whenever trust ends, and however often it was
// renewed before, the last time to kill comes before the grace is over, with a look at each
// interval.
func TestNoCommandOutlivesItsTrustByTheStopGrace(t *testing.T) {
	dice := rand.New(rand.NewPCG(28, 6))
	for range 2000 {
		upTo := func(most time.Duration) time.Duration { return time.Duration(dice.Int64N(int64(most))) }
		timing := election.Timing{StopGrace: leastGrace + upTo(10*time.Second), StopTimeout: upTo(time.Minute)}
		l := limit{timing: timing}
		until, now, asked := start0.Add(time.Second), start0, false
		renewals := dice.IntN(9)
		for !l.kill(now) {
			if renewals > 0 && now.Before(until) {
				until, renewals = now.Add(upTo(10*time.Second)), renewals-1
			}
			l.trust(now, until.Sub(now))
			switch over := !now.Before(until); {
			case asked:
			case over:
				l.ask(now, election.ErrLost)
				asked = true
			case dice.IntN(40) == 0:
				l.ask(now, election.ErrStopped)
				asked = true
			}
			now = now.Add(l.interval())
			if over := now.Sub(until); over >= timing.StopGrace {
				t.Fatalf("StopGrace %v, StopTimeout %v: it runs %v after the end of trust", timing.StopGrace, timing.StopTimeout, over)
			}
		}
	}
}
