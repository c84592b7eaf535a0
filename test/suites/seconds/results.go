// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
)

// results are what was measured.
type results struct {
	Network string `json:"network"`
	Timing  string `json:"timing"`
	Locks   int    `json:"locks"`
	// Strangers reports that the candidates did not know of each other.
	Strangers bool `json:"strangers,omitempty"`
	// Worst reports that all connections of the others died just before the last heartbeat.
	Worst  bool   `json:"worst,omitempty"`
	Quiet  *span  `json:"quiet,omitempty"`
	Kills  []kill `json:"kills,omitempty"`
	Losses []loss `json:"losses,omitempty"`
}

// span is some time, and how many terms ended in it, in how many processes.
type span struct {
	Minutes   float64 `json:"minutes"`
	Terms     int     `json:"terms"`
	Processes int     `json:"processes"`
}

// kill is a kill of etcd's leader, and the time until the next one.
type kill struct {
	span
	Elected float64 `json:"elected"`        // after how many seconds etcd had another leader
	Load    string  `json:"load,omitempty"` // of the machine, at the end
}

// String says what one kill cost.
func (k kill) String() string {
	return fmt.Sprintf("another of etcd's members was elected after %.2f s; %d terms lost, in %d processes; load %s", k.Elected, k.Terms, k.Processes, k.Load)
}

// loss is the loss of a zone: how many locks were led from it, and after how many seconds half
// of them and all of them were led again.
type loss struct {
	Locks int     `json:"locks"`
	Half  float64 `json:"half"`
	All   float64 `json:"all"`
	// Etcd reports that etcd's leader was in the zone, and Elected after how many seconds
	// etcd had another.
	Etcd    bool    `json:"etcd,omitempty"`
	Elected float64 `json:"elected,omitempty"`
	Last    phases  `json:"last"`
	Load    string  `json:"load,omitempty"` // of the machine, afterwards
}

// String says how one loss went.
func (l loss) String() string {
	etcd := "etcd's leader was elsewhere"
	if l.Etcd {
		etcd = fmt.Sprintf("with etcd's leader, another was elected after %.2f s", l.Elected)
	}
	p := l.Last
	return fmt.Sprintf("%s; %d locks, half led after %.2f s, all after %.2f s; the last: renewal seen %.2f, free %.2f, asked for %.2f, heartbeat withdrawn %.2f, taken %.2f; load %s",
		etcd, l.Locks, l.Half, l.All, p.Seen, p.Free, p.Claimed, p.Withdrawn, p.Taken, l.Load)
}

// String says what was run, and what came of it.
func (r *results) String() string {
	w := &strings.Builder{}
	fmt.Fprintf(w, "3 processes with %d locks and a heartbeat each, timing %s, zones joined by %s\n", r.Locks, r.Timing, r.Network)
	if r.Strangers {
		fmt.Fprintln(w, "the candidates have no pods and do not know of each other")
	}
	if r.Worst {
		fmt.Fprintln(w, "all connections of the others died just before the last heartbeat")
	}
	if q := r.Quiet; q != nil {
		fmt.Fprintf(w, "nothing failed for %.0f minutes: %d terms lost\n", q.Minutes, q.Terms)
	}
	r.describeKills(w)
	describeLosses(w, "the leaders' zone lost its power", r.Losses)
	describeLosses(w, "  with etcd's leader in it", only(r.Losses, func(l loss) bool { return l.Etcd }))
	describeLosses(w, "  with etcd's leader elsewhere", only(r.Losses, func(l loss) bool { return !l.Etcd }))
	return w.String()
}

func (r *results) describeKills(w *strings.Builder) {
	if len(r.Kills) == 0 {
		return
	}
	var minutes float64
	var terms, processes, most int
	var harmless, costly []kill
	for _, k := range r.Kills {
		minutes += k.Minutes
		terms += k.Terms
		processes += k.Processes
		most = max(most, k.Processes)
		if k.Terms > 0 {
			costly = append(costly, k)
		} else {
			harmless = append(harmless, k)
		}
	}
	fmt.Fprintf(w, "etcd's leader was killed %d times in %.0f minutes: %d of them cost terms, %d in all, in %d processes in all and %d at most each time\n",
		len(r.Kills), minutes, len(costly), terms, processes, most)
	elected := func(k kill) float64 { return k.Elected }
	fmt.Fprintf(w, "    %-60s %s\n", "seconds until etcd had a leader, where no term was lost", spread(harmless, elected))
	fmt.Fprintf(w, "    %-60s %s\n", "seconds until etcd had a leader, where some were", spread(costly, elected))
}

// describeLosses says how some losses went.
func describeLosses(w *strings.Builder, what string, losses []loss) {
	if len(losses) == 0 {
		return
	}
	fmt.Fprintf(w, "%s %d times; seconds\n", what, len(losses))
	for _, row := range []struct {
		name string
		of   func(loss) float64
	}{
		{"until others led half of the locks", func(l loss) float64 { return l.Half }},
		{"until others led all locks", func(l loss) float64 { return l.All }},
		{"until etcd had a leader", func(l loss) float64 { return l.Elected }},
		{"the last lock: until its last renewal was seen", func(l loss) float64 { return l.Last.Seen }},
		{"the last lock: from there until it was free", func(l loss) float64 { return l.Last.Free - l.Last.Seen }},
		{"the last lock: from there until the heartbeat was withdrawn", func(l loss) float64 { return l.Last.Withdrawn - l.Last.Free }},
		{"the last lock: from there until it was taken", func(l loss) float64 { return l.Last.Taken - l.Last.Withdrawn }},
		{"the last lock: from there until the work began", func(l loss) float64 { return l.Last.Led - l.Last.Taken }},
	} {
		fmt.Fprintf(w, "    %-60s %s\n", row.name, spread(losses, row.of))
	}
}

// only returns the losses for which is returns true.
func only(losses []loss, is func(loss) bool) (some []loss) {
	for _, l := range losses {
		if is(l) {
			some = append(some, l)
		}
	}
	return some
}

// spread describes how some numbers are spread.
func spread[T any](all []T, of func(T) float64) string {
	if len(all) == 0 {
		return "none"
	}
	var numbers []float64
	for _, l := range all {
		numbers = append(numbers, of(l))
	}
	slices.Sort(numbers)
	return fmt.Sprintf("p50 %.2f, p99 %.2f, most %.2f", percentile(numbers, 50), percentile(numbers, 99), numbers[len(numbers)-1])
}

// percentile is the smallest of the sorted numbers that so many percent do not exceed.
func percentile(sorted []float64, percent int) float64 {
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}
