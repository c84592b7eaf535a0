// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"fmt"
	"time"

	"github.com/zonelect/zonelect/election"
)

// Load is what the renewals of all leaders cost the API, and etcd's disks.
type Load struct {
	// Renewals are the writes per second without heartbeats, one for each lock.
	Renewals float64
	// Heartbeats are the writes per second with heartbeats: one for each process and
	// RenewInterval, whether or not the process leads.
	Heartbeats float64
	// Takeover is how many writes come at once when a process dies that holds its share of the
	// locks. With heartbeats it is one more, see [Wish].Heartbeat.
	Takeover int
}

// LoadOf returns the load of Wish.Locks in Wish.Processes with a timing. It is pure.
func LoadOf(t election.Timing, w Wish) Load {
	t, w = t.WithDefaults(), w.withDefaults()
	holding := min(w.Processes, w.Locks)
	load := Load{
		Renewals:   perSecond(w.Locks, t.RenewInterval),
		Heartbeats: perSecond(w.Processes, t.RenewInterval),
		Takeover:   (w.Locks + holding - 1) / holding,
	}
	if w.Heartbeat {
		load.Takeover++
	}
	return load
}

func perSecond(n int, every time.Duration) float64 { return float64(n) / every.Seconds() }

// Warnings says what a timing does not surely survive under the conditions of a wish: an
// election of etcd, requests as slow as Wish.RoundTrip, as with a slow disk, and work that
// takes Wish.Stop to stop. It is pure.
func Warnings(t election.Timing, w Wish) []string {
	t, w = t.WithDefaults(), w.withDefaults()
	b := BoundsOf(t, w)
	var all []string
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if request := fresh(t, w); request.Total() > t.RenewInterval {
		warn("round trips of %v are too long: a request on a new connection takes %v, which is %s, and RenewInterval is %v, so an outage may end the term sooner than it says here",
			w.RoundTrip, request.Total(), request, t.RenewInterval)
	}
	if most := b.ElectionSurvived; most.Total() < w.EtcdElection {
		warn("etcd may end the term when it takes %v to elect a leader: surely survived is %v, %s",
			w.EtcdElection, max(0, most.Total()).Round(time.Millisecond), most)
	}
	if left := b.StopLeft.Total(); left < w.Stop {
		warn("work that takes %v to stop may overlap the next leader's: it has %v", w.Stop, left)
	}
	return all
}
