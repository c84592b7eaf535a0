// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Weather is how bad the network between a zone and the others is. The zero
// value does no harm. Between two zones that both have weather, that of the
// zone that comes first in Config applies.
type Weather struct {
	// Delay is how much longer a packet takes, each way.
	Delay time.Duration
	// Jitter is the largest random addition to that. No packet overtakes another.
	Jitter time.Duration
	// Loss is the share of packets that are lost, each way: 0 to 1.
	Loss float64
}

// valid returns an error that says what is wrong with it.
func (w Weather) valid() error {
	if w.Delay < 0 || w.Jitter < 0 || w.Loss < 0 || w.Loss > 1 {
		return fmt.Errorf("weather %+v: use no negative time, and a loss between 0 and 1", w)
	}
	return nil
}

// SetWeather makes the network between a zone and all others slow and lossy,
// also for established connections; the zero value mends it. The test process
// holds or drops each packet on its own, below TCP. So it is not a measure of
// bandwidth, and a burst of thousands of packets is slower than Weather says.
// Inside a zone, and towards the test process, nothing changes. It needs
// Namespaces, and /dev/net/tun.
func (n *Network) SetWeather(zone string, w Weather) error {
	if n.config.Network != Namespaces {
		return errors.New("set the weather: relays have none, it needs the network Namespaces")
	}
	if err := w.valid(); err != nil {
		return fmt.Errorf("set the weather: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, err := n.zone(zone); err != nil {
		return fmt.Errorf("set the weather: %w", err)
	}
	before := n.state.weather[zone]
	n.state.weather[zone] = w
	if err := n.settle(n.ctx); err != nil {
		n.state.weather[zone] = before
		return fmt.Errorf("set the weather of zone %s: %w", zone, err)
	}
	n.say("zone %s: the weather is %+v", zone, w)
	return nil
}

// Weathered returns how many packets weather has delayed, and how many it has
// dropped, since Start.
func (n *Network) Weathered() (late, lost int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.fabric.weathered()
}

// between is the weather between two of these zones.
func (s state) between(zones []string, p pair) Weather {
	for _, zone := range zones {
		if w := s.weather[zone]; w != (Weather{}) && (zone == p.from || zone == p.to) {
			return w
		}
	}
	return Weather{}
}

// bad are the directions between these zones that have weather.
func (s state) bad(zones []string) []pair {
	var all []pair
	for _, from := range zones {
		for _, to := range zones {
			if p := (pair{from, to}); from != to && s.between(zones, p) != (Weather{}) {
				all = append(all, p)
			}
		}
	}
	return all
}

// path is one direction between two zones.
type path struct {
	last time.Time // when the latest packet is due
}

// pass says when a packet that arrives now is due, or that it is lost.
func (l *path) pass(now time.Time, w Weather) (due time.Time, arrives bool) {
	if rand.Float64() < w.Loss {
		return due, false
	}
	due = now.Add(w.Delay)
	if w.Jitter > 0 {
		due = due.Add(rand.N(w.Jitter))
	}
	if due.Before(l.last) {
		due = l.last
	}
	l.last = due
	return due, true
}
