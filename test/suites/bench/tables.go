// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// peer is the kind that the others are compared with.
const peer = "client-go"

// write writes the tables as Markdown.
func (r *Results) write(file string) error {
	var text bytes.Buffer
	r.print(&text)
	return put(file, text.Bytes())
}

// print prints all tables. In brackets: how many times client-go's figure that is.
func (r *Results) print(to io.Writer) {
	for _, run := range r.Runs {
		_, _ = fmt.Fprintf(to, "- %s\n", run)
	}
	_, _ = fmt.Fprintf(to, "\nIn brackets: how many times the figure of %s that is.\n", peer)
	r.sort()
	many, few := split(r.Idle, func(i Idle) bool { return i.Candidates <= 3 })
	_, _ = fmt.Fprint(to, "\n### Three processes that only go on\n\n")
	r.idles(to, many)
	_, _ = fmt.Fprint(to, "\n### How soon others lead\n\n")
	crashes, crowds := split(r.Takeovers, func(t Takeover) bool { return t.Candidates <= 3 })
	r.takeovers(to, crashes)
	_, _ = fmt.Fprint(to, "\n### Many candidates for one lock\n\n")
	r.crowds(to, few)
	_, _ = fmt.Fprintln(to)
	r.takeovers(to, crowds)
}

// sort puts the measurements in the order of the tables.
func (r *Results) sort() {
	kinds := []string{"own", outside, "shared", "heartbeat", peer}
	ways := []string{terminated.name, killed.name, powerless.name}
	slices.SortStableFunc(r.Idle, func(a, b Idle) int {
		return cmp.Or(cmp.Compare(a.Candidates, b.Candidates), cmp.Compare(a.Locks, b.Locks), cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)))
	})
	slices.SortStableFunc(r.Takeovers, func(a, b Takeover) int {
		return cmp.Or(cmp.Compare(slices.Index(ways, a.Way), slices.Index(ways, b.Way)), cmp.Compare(a.Candidates, b.Candidates),
			cmp.Compare(a.Locks, b.Locks), cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)))
	})
}

func split[T any](all []T, first func(T) bool) (is, isNot []T) {
	for _, one := range all {
		if first(one) {
			is = append(is, one)
		} else {
			isNot = append(isNot, one)
		}
	}
	return is, isNot
}

// idles prints what fleets with many locks cost.
func (r *Results) idles(to io.Writer, all []Idle) {
	t := newTable(to, "locks", "kind", "requests/s", "by verb", "kB/s", "connections", "watches", "CPU clients", "CPU apiservers", "CPU etcd", "RSS MiB", "KiB/lock", "goroutines", "per lock")
	for _, i := range all {
		c := other(all, i)
		first := smallest(all, i)
		t.row(i.Locks, i.Kind, ratio(i.Requests, c.Requests), verbs(i.Verbs), ratio(i.Bytes/1000, c.Bytes/1000), ratio(float64(i.Connections), float64(c.Connections)), i.Watches,
			ratio(i.ClientCPU, c.ClientCPU), ratio(i.ServerCPU, c.ServerCPU), ratio(i.EtcdCPU, c.EtcdCPU),
			i.RSS>>20, each(i.RSS-first.RSS, i.Locks-first.Locks, 1024), i.Goroutines, each(int64(i.Goroutines-first.Goroutines), i.Locks-first.Locks, 1))
	}
	t.end()
}

// crowds prints what many candidates for one lock cost for each renewal.
func (r *Results) crowds(to io.Writer, all []Idle) {
	t := newTable(to, "candidates", "kind", "requests/s", "by verb", "kB per renewal", "connections", "watches", "CPU ms per renewal: clients", "apiservers", "etcd")
	for _, i := range all {
		c := other(all, i)
		t.row(i.Candidates, i.Kind, ratio(i.Requests, c.Requests), verbs(i.Verbs), ratio(i.renewal(i.Bytes/1000), c.renewal(c.Bytes/1000)), i.Connections, i.Watches,
			ratio(i.renewal(1000*i.ClientCPU), c.renewal(1000*c.ClientCPU)), ratio(i.renewal(1000*i.ServerCPU), c.renewal(1000*c.ServerCPU)), ratio(i.renewal(1000*i.EtcdCPU), c.renewal(1000*c.EtcdCPU)))
	}
	t.end()
}

// renewal is how much of something each second there is for each renewal.
func (i Idle) renewal(eachSecond float64) float64 {
	if i.Verbs["PUT"] == 0 {
		return 0
	}
	return eachSecond / i.Verbs["PUT"]
}

// other is client-go's measurement of the same population.
func other(all []Idle, i Idle) Idle {
	for _, o := range all {
		if o.Kind == peer && o.Locks == i.Locks && o.Candidates == i.Candidates {
			return o
		}
	}
	return Idle{}
}

// smallest is the measurement of the same kind with the fewest locks.
func smallest(all []Idle, i Idle) Idle {
	for _, o := range all {
		if o.Kind == i.Kind && o.Locks < i.Locks {
			i = o
		}
	}
	return i
}

// takeovers prints how soon others led.
func (r *Results) takeovers(to io.Writer, all []Takeover) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Takeover) int {
		return cmp.Or(cmp.Compare(a.Way, b.Way), cmp.Compare(a.Locks, b.Locks), cmp.Compare(a.Candidates, b.Candidates))
	})
	t := newTable(to, "leaders' process", "locks", "candidates", "kind", "50 % led after s", "99 %", "all", "led", "writes")
	for _, one := range all {
		var c Takeover
		for _, o := range all {
			if o.Kind == peer && o.Way == one.Way && o.Locks == one.Locks && o.Candidates == one.Candidates {
				c = o
			}
		}
		writes := fmt.Sprint(one.Writes)
		if one.Writes == 0 {
			writes = ""
		}
		t.row(one.Way, one.Locks, one.Candidates, one.Kind, took(one.Half, c.Half), took(one.Most, c.Most), took(one.All, c.All), one.Led, writes)
	}
	t.end()
}

// ratio is a figure and how many times client-go's it is.
func ratio(x, peers float64) string {
	text := fmt.Sprintf("%.3g", x)
	if x >= 1000 {
		text = fmt.Sprintf("%.0f", x)
	}
	if peers == 0 || x == peers {
		return text
	}
	return fmt.Sprintf("%s (x%.2g)", text, x/peers)
}

// took is the ratio of times, of which zero means never.
func took(x, peers float64) string {
	if x == 0 {
		return "never"
	}
	return ratio(x, peers)
}

// each is how much more there is for each lock more.
func each(more int64, locks int, unit float64) string {
	if locks == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", float64(more)/float64(locks)/unit)
}

// verbs are the requests each second by verb.
func verbs(all map[string]float64) string {
	var text []string
	for _, verb := range []string{"PUT", "PATCH", "POST", "GET", "LIST", "WATCH"} {
		if n := all[verb]; n >= 0.05 {
			text = append(text, fmt.Sprintf("%s %.3g", verb, n))
		}
	}
	return strings.Join(text, ", ")
}

// table is a table in Markdown.
type table struct{ *tabwriter.Writer }

func newTable(to io.Writer, head ...any) table {
	t := table{tabwriter.NewWriter(to, 0, 0, 1, ' ', 0)}
	t.row(head...)
	t.row(slices.Repeat([]any{"---"}, len(head))...)
	return t
}

func (t table) row(cells ...any) {
	for _, cell := range cells {
		_, _ = fmt.Fprintf(t.Writer, "| %v\t", cell)
	}
	_, _ = fmt.Fprintln(t.Writer, "|")
}

func (t table) end() { _ = t.Flush() } // a table that cannot be printed is not worth an error
