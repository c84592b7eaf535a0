// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// slowClocks is a machine on which reading a clock takes time.
type slowClocks struct {
	t     *testing.T
	now   time.Duration // monotonic
	slept time.Duration
	takes func() time.Duration // time taken before and after each reading of the clock
	reads int
}

func (c *slowClocks) read(clock func() time.Duration) time.Duration {
	if c.reads++; c.reads > 1000 {
		c.t.Fatal("the clock is read for ever")
	}
	c.now += c.takes()
	read := clock()
	c.now += c.takes()
	return read
}

func (c *slowClocks) monotonic() time.Duration {
	return c.read(func() time.Duration { return c.now })
}

func (c *slowClocks) boot() time.Duration {
	return c.read(func() time.Duration { return c.now + c.slept })
}

// moment is a reading of all clocks, as clock.now makes it.
func (c *slowClocks) moment(start time.Time) moment {
	awake := start.Add(c.now)
	return moment{awake, measure(c.monotonic, c.boot)}
}

func always(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

func TestS2ReadingTheClockEndsHoweverSlowItIs(t *testing.T) {
	for _, takes := range []time.Duration{0, 10 * time.Microsecond, 30 * time.Microsecond, time.Millisecond, time.Second} {
		c := &slowClocks{t: t, slept: 1234567 * time.Microsecond, takes: always(takes)}
		got := measure(c.monotonic, c.boot)
		if c.reads > 2*mostTries+1 {
			t.Errorf("%d readings that take %v each, want %d at most", c.reads, 2*takes, 2*mostTries+1)
		}
		if slack := time.Millisecond; got.least-slack > c.slept || got.most+slack < c.slept {
			t.Errorf("readings that take %v: suspended for %v up to %v, was for %v", 2*takes, got.least, got.most, c.slept)
		}
	}
}

// TestS2WhereTheClockIsUnsureTimeCountsAsElapsed: no reading, at either end of a span or at
// a renewal in it, makes trust last longer than the span from when the renewal was sent.
func TestS2WhereTheClockIsUnsureTimeCountsAsElapsed(t *testing.T) {
	dice := rand.New(rand.NewPCG(12, 1))
	wall := time.Now()
	for range 2000 {
		c := &slowClocks{t: t, slept: time.Duration(dice.Int64N(int64(time.Hour)))}
		c.takes = func() time.Duration { return time.Duration(60+dice.Int64N(2000)) * time.Microsecond }
		pass := func() {
			c.now += time.Duration(dice.Int64N(int64(3 * time.Second)))
			if dice.IntN(3) == 0 {
				c.slept += time.Duration(dice.Int64N(int64(time.Second)))
			}
		}
		elapsed := func() time.Duration { return c.now + c.slept }
		const span = 10 * time.Second
		start := c.moment(wall)
		trust := &trust{start: start}
		trust.until.Store(int64(span))
		pass()
		before := elapsed()
		trust.extend(c.moment(wall), span)
		pass()
		c.reads = 0
		now := elapsed()
		left := time.Duration(trust.until.Load()) - c.moment(wall).sinceAtMost(start)
		if want := span - (now - before); left > want || left < want-50*time.Millisecond {
			t.Fatalf("trusted for %v, %v after the renewal was sent", left, now-before)
		}
	}
}

// TestS1AnEndedTrustIsNotExtended by an acknowledged renewal: the timer may end it in between.
func TestS1AnEndedTrustIsNotExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock{asleep: func() suspension { return suspension{} }}
		trust := newTrust(c, c.now(), 10*time.Second, time.Second, func() {})
		trust.end()
		if trust.extend(c.now(), 10*time.Second); trust.left() > 0 {
			t.Errorf("the term is trusted for %v after its end", trust.left())
		}
	})
}

// TestS2AnUnsureClockCountsAgainstTheHolder: of the most that it may have slept, and the least.
func TestS2AnUnsureClockCountsAgainstTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept suspension
		c := clock{asleep: func() suspension { return slept }}
		trust := newTrust(c, c.now(), 10*time.Second, time.Second, func() {})
		defer trust.end()
		slept = suspension{3 * time.Second, 5 * time.Second}
		if left := trust.left(); left != 5*time.Second {
			t.Errorf("after a sleep of 3 to 5 s the term is trusted for %v", left)
		}
		if trust.extend(c.now(), 10*time.Second); trust.left() != 8*time.Second {
			t.Errorf("a renewal that was sent then gives %v", trust.left())
		}
		trust.end()
		slept.most += 2 * time.Second
		if over := trust.overFor(); over != 2*time.Second {
			t.Errorf("it has been over for %v", over)
		}
	})
}

// TestS2WhatTheReadingOfAClockTakesHasElapsed, too: the process may have been stopped within it.
func TestS2WhatTheReadingOfAClockTakesHasElapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock{asleep: func() suspension {
			time.Sleep(time.Second)
			return suspension{}
		}}
		start := c.now()
		trust := newTrust(c, start, 10*time.Second, 10*time.Second, func() {})
		defer trust.end()
		if left, want := trust.left(), 10*time.Second-time.Since(start.awake); left != want {
			t.Errorf("the term is trusted for %v, want %v", left, want)
		}
	})
}

// TestS2AnAcquisitionBeginsNoTermIfItsTrustMayBeOver: somebody else may have led since.
func TestS2AnAcquisitionBeginsNoTermIfItsTrustMayBeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept suspension
		f := &following{run: &run{
			Elector:  &Elector{clock: clock{asleep: func() suspension { return slept }}, config: Config{Timing: Timing{}.WithDefaults()}},
			exchange: &exchange{},
		}}
		won := answer{request: request{sent: f.clock.now()}}
		if slept.most = f.config.Timing.RenewDeadline; f.inTime(won) {
			t.Error("it may be over, and a term begins")
		}
	})
}

// TestS1ARenewalExtendsTrustIfItsTimeDiffersInWholeSeconds from that of the last one that did: client-go's
// candidates may take the others for the same renewal. The clock may have been set back, and a renewal may
// leave later than it was made.
func TestS1ARenewalExtendsTrustIfItsTimeDiffersInWholeSeconds(t *testing.T) {
	start := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	for what, row := range map[string]struct {
		interval, later, stamp time.Duration // how much later it was sent, and what it says
		extends                bool
	}{
		"the next":                              {2 * time.Second, 2 * time.Second, 2 * time.Second, true},
		"one in the next second":                {2 * time.Second, 300 * time.Millisecond, time.Second, true},
		"one in the same second":                {2 * time.Second, 900 * time.Millisecond, 900 * time.Millisecond, false},
		"one that waited":                       {2 * time.Second, 1400 * time.Millisecond, 900 * time.Millisecond, false},
		"the next, after the clock was set":     {2 * time.Second, 2 * time.Second, 10 * time.Millisecond, false},
		"the next of a short interval":          {500 * time.Millisecond, 500 * time.Millisecond, 500 * time.Millisecond, true},
		"too early a one of a short interval":   {500 * time.Millisecond, 400 * time.Millisecond, time.Second, false},
		"the next, after it was set far back":   {2 * time.Second, 2 * time.Second, -time.Hour, true},
		"the next, after it was set to a later": {2 * time.Second, 2 * time.Second, time.Hour, true},
	} {
		l := &leadership{
			run:  &run{Elector: &Elector{config: Config{Timing: Timing{RenewInterval: row.interval}}}},
			last: request{record: locks.Record{RenewTime: start}, sent: moment{awake: start}},
		}
		a := answer{request: request{record: locks.Record{RenewTime: start.Add(row.stamp)}, sent: moment{awake: start.Add(row.later)}}}
		if l.tellsApart(a) != row.extends {
			t.Errorf("%s extends trust: %v", what, !row.extends)
		}
	}
}
