// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"math/rand/v2"
	"testing"
	"time"
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

func TestS2TheMostExactOfSlowReadingsCounts(t *testing.T) {
	takes := []time.Duration{500, 500, 500, 90, 90, 500, 500, 500, 500} // in microseconds, one for each reading
	c := &slowClocks{t: t, slept: time.Hour}
	c.takes = func() time.Duration { return takes[c.reads-1] * time.Microsecond }
	got := measure(c.monotonic, c.boot)
	if width := got.most - got.least; width > 1300*time.Microsecond || got.least > c.slept || got.most < c.slept {
		t.Errorf("suspended for %v up to %v, was for %v", got.least, got.most, c.slept)
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
