// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

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
	// locks. With heartbeats it is one more, see [Requirements].Heartbeat.
	Takeover int
}

// LoadOf returns the load of Requirements.Locks in Requirements.Processes with a timing. It is pure.
func LoadOf(t election.Timing, r Requirements) Load {
	t, r = t.WithDefaults(), r.withDefaults()
	holding := min(r.Processes, r.Locks)
	load := Load{
		Renewals:   perSecond(r.Locks, t.RenewInterval),
		Heartbeats: perSecond(r.Processes, t.RenewInterval),
		Takeover:   (r.Locks + holding - 1) / holding,
	}
	if r.Heartbeat {
		load.Takeover++
	}
	return load
}

func perSecond(n int, every time.Duration) float64 { return float64(n) / every.Seconds() }

// Warnings says what a timing does not surely survive under the given requirements: an
// election of etcd, requests as slow as Requirements.RoundTrip, as with a slow disk, and work that
// takes Requirements.Stop to stop. It is pure.
func Warnings(t election.Timing, r Requirements) []string {
	t, r = t.WithDefaults(), r.withDefaults()
	b := BoundsOf(t, r)
	var all []string
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if request := fresh(t, r); request.Total() > t.RenewInterval {
		warn("round trips of %v are too long: a request on a new connection takes %v, which is %s, and RenewInterval is %v, so an outage may end the term sooner than it says here",
			r.RoundTrip, request.Total(), request, t.RenewInterval)
	}
	if most := b.ElectionSurvived; most.Total() < r.EtcdElection {
		warn("etcd may end the term when it takes %v to elect a leader: surely survived is %v, %s",
			r.EtcdElection, max(0, most.Total()).Round(time.Millisecond), most)
	}
	if left := b.StopLeft.Total(); left < r.Stop {
		warn("work that takes %v to stop may overlap the next leader's: it has %v", r.Stop, left)
	}
	return all
}
