// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/zonelect/zonelect/election/timing"
)

// Span is a duration, or a range of which it is not visible where in it the duration is.
type Span struct {
	LeastMilliseconds int64 `json:"leastMilliseconds"`
	// MostMilliseconds is missing if nothing bounds it.
	MostMilliseconds *int64 `json:"mostMilliseconds,omitempty"`
	// Visible says that it was seen, or follows from what was seen.
	Visible bool `json:"visible"`
}

func exactly(d time.Duration) Span { return Span{d.Milliseconds(), new(d.Milliseconds()), true} }

func between(least, most time.Duration) Span {
	return Span{LeastMilliseconds: least.Milliseconds(), MostMilliseconds: new(most.Milliseconds())}
}

func atLeast(least time.Duration) Span { return Span{LeastMilliseconds: least.Milliseconds()} }

// String is the span for a table. A question mark says that it is not visible.
func (s Span) String() string {
	least := short(s.LeastMilliseconds)
	switch {
	case s.MostMilliseconds == nil:
		return ">" + least
	case s.Visible:
		return least
	case s.LeastMilliseconds == *s.MostMilliseconds:
		return least + "?"
	}
	return least + "-" + short(*s.MostMilliseconds) + "?"
}

// short is a number of milliseconds with two or three figures.
func short(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d >= 10*time.Second:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(100 * time.Millisecond)
	default:
		d = d.Round(10 * time.Millisecond)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// evicted is after how long Kubernetes begins to delete the pods of a node that is lost, see
// docs/timing.md.
const evicted = 340 * time.Second

// foreign are the field managers of clients whose electors are not client-go's: fabric8's, the official
// ones for Java and for Python.
var foreign = []string{fabric8, "Kubernetes Java Client", "OpenAPI-Generator", "Swagger-Codegen"}

const fabric8 = "fabric8-kubernetes-client"

func electorOf(e Election) Elector {
	switch {
	case e.Last().Zonelect:
		return Zonelect
	case e.Kind == IsForLife || e.Foreign || slices.Contains(foreign, e.Writer):
		return Other
	}
	return ClientGo
}

// acquireJitter is by how much RenewDeadline must be longer than RetryPeriod, so that client-go takes it.
const acquireJitter = 1.2

// deadlines is the range in which RenewDeadline must be, for the elector to accept it.
func deadlines(by Elector, lease, period time.Duration) (least, most time.Duration) {
	switch by {
	case Zonelect:
		return min(2*period, lease), lease - time.Duration(float64(lease)*timing.DefaultMaxClockDrift)
	case ClientGo:
		return min(time.Duration(float64(period)*acquireJitter), lease), lease
	}
	return min(period, lease), lease
}

// cost fills in what the losses of a leader and of a zone cost.
func (j *judgement) cost() {
	r, replicas := &j.report, 0
	for _, n := range r.Replicas {
		replicas += n
	}
	lost := replicas > 0 && len(r.Replicas) == 1 && r.Replicas["?"] == 0 || replicas == 1
	if r.Kind == IsForLife { // it is not looked at any more once it is held
		r.Crash, r.LostZone = atLeast(0), atLeast(time.Minute)
		return
	}
	lease, period := j.last.Lease, cmp.Or(j.period, j.retry)
	r.Crash, r.LostZone = atLeast(lease), atLeast(lease)
	if lease > 0 && (r.Deadline == nil || !r.Deadline.Visible) {
		r.Deadline = new(between(deadlines(r.Elector, lease, period)))
	}
	if period > 0 && lease > 0 && r.Elector == Zonelect {
		takeover, _ := timing.Timing{LeaseDuration: lease, RenewInterval: period}.Bounds()
		r.Crash, r.LostZone = exactly(takeover), exactly(takeover)
	}
	if lost {
		r.LostZone = atLeast(max(evicted, lease))
	}
}
