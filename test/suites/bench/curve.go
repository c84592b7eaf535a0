// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zonelect/zonelect/test/kit/slow"
)

// A place is where a server, or the way to it, spends the time.
type place string

const (
	answers  place = "answers late"          // a proxy, a full link, an API server without CPU
	requests place = "requests arrive late"  // the same, on the way there
	writes   place = "writes land late"      // admission that validates
	webhooks place = "two webhooks"          // admission that mutates and validates, half the time each
	storage  place = "reads and writes late" // etcd
)

var places = []place{answers, requests, writes, webhooks, storage}

// A shape is how a delay changes with time.
type shape string

const (
	constant shape = "constant"
	steps    shape = "steps"  // none, and then all of it, for two minutes each
	jitter   shape = "jitter" // from a tenth of it to all of it
	stalls   shape = "stalls" // once a minute everything waits for so long
)

var shapes = []shape{constant, steps, jitter, stalls}

// No multiple of a RenewInterval, so that a change meets each moment between two renewals.
const (
	stepEvery  = 2*time.Minute + 700*time.Millisecond
	stallEvery = time.Minute + 700*time.Millisecond
)

// weather is what the candidates of a trial meet.
type weather struct {
	place
	shape
	delay time.Duration // at most
	lost  float64       // the share of answers after which a connection is silent
}

func (w weather) String() string {
	name := fmt.Sprintf("%s, %s, %v", w.place, w.shape, w.delay)
	if w.lost > 0 {
		name += fmt.Sprintf(", %.0f %% lost", 100*w.lost)
	}
	return name
}

// of returns the delay of this shape if candidates start at start.
func (s shape) of(d time.Duration, start time.Time) slow.Delay {
	switch s {
	case steps:
		return slow.Steps(d, start, stepEvery)
	case jitter:
		return slow.Jitter(d/10, d)
	case stalls:
		return slow.Stalls(d, start, stallEvery)
	default:
		return slow.Constant(d)
	}
}

// delays are where time goes. Those of a place that is fast are nil.
type delays struct {
	way                       slow.Way
	reads, admission, landing slow.Delay
}

// odd makes no delay a multiple of a timeout. In virtual time, an answer and a timeout would come
// at one instant else, which real ones do not.
const odd = 7 * time.Millisecond

// from returns the delays for candidates that start at start.
func (w weather) from(start time.Time) delays {
	d := delays{way: slow.Way{Lost: w.lost}}
	is := w.of(w.delay+odd, start)
	switch w.place {
	case answers:
		d.way.Answers = is
	case requests:
		d.way.Requests = is
	case writes:
		d.landing = is
	case webhooks:
		d.admission, d.landing = w.of((w.delay+odd)/2, start), w.of((w.delay+odd)/2, start)
	case storage:
		d.reads, d.landing = is, is
	}
	return d
}

var lengths = []float64{0.1, 0.5, 1, 2.1, 3, 4, 5, 6, 8}

// all lists the weathers that are measured.
func all() (list []weather) {
	for _, p := range places {
		for _, s := range shapes {
			for _, d := range lengths {
				list = append(list, weather{place: p, shape: s, delay: time.Duration(d * float64(time.Second))})
			}
		}
	}
	return append(list,
		weather{place: answers, shape: constant, delay: 100 * time.Millisecond, lost: 0.2},
		weather{place: answers, shape: constant, delay: time.Second, lost: 0.2},
	)
}

// few lists those that say most: the slowest ones in which one of the timings makes a promise.
func few() []weather {
	return slices.DeleteFunc(all(), func(w weather) bool {
		return w.lost == 0 && !slices.Contains([]time.Duration{4 * time.Second, 8 * time.Second}, w.delay)
	})
}

// counts are the requests and connections of an elector.
type counts struct {
	mu                    sync.Mutex
	requests, connections int
}

func (c *counts) add(requests, connections int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests += requests
	c.connections += connections
}

func (c *counts) read() (requests, connections int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests, c.connections
}
