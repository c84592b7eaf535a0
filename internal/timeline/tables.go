// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// page is what the template shows.
type page struct {
	Title, Summary string
	Empty          bool
	Overlaps       int // how often two led at a time
	Changes        []change
	Phases         []string
	Failovers      []failoverRow
	Incidents      []incident
	Data           data
}

// change is a row of the table of changes of leadership.
type change struct {
	At, Clock, Group, Leader, Zone, Token, Cause string
	Before                                       string // how long nobody had led
	Overlaps                                     bool
	Lasted, Ended                                string
}

type failoverRow struct {
	At, Clock, Group, Leader, Zone, Previous, Cause string
	Phases                                          []string // in milliseconds; empty if there was none
	Total                                           string
}

// incident is a fault, the end of a lease, or a note.
type incident struct {
	ID, At, Clock, What, Where, Lasted string
	from                               time.Time
}

func newPage(h History) page {
	p := page{
		Title: cmp.Or(h.Title, "Timeline"), Empty: h.empty(), Overlaps: len(h.overlaps()), Summary: h.summary(),
		Changes: h.changes(), Failovers: h.failoverRows(), Incidents: h.incidents(), Data: newData(h),
	}
	for _, name := range phases {
		p.Phases = append(p.Phases, name.words())
	}
	return p
}

// words is the phase's name as people say it.
func (n PhaseName) words() string { return strings.ReplaceAll(string(n), "_", " ") }

func (h History) summary() string {
	return fmt.Sprintf("%s: %s, %s, %s of leadership, %s, %s.",
		h.Begin.UTC().Format("2006-01-02 15:04:05")+" to "+h.End.UTC().Format("2006-01-02 15:04:05")+" UTC",
		count(len(h.Zones), "zone"), count(len(h.Lanes), "candidate"), count(len(h.Terms), "change"),
		count(len(h.Failovers), "failover"), count(len(h.Faults), "fault"))
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}

func (h History) changes() (all []change) {
	lanes, before := h.laneOf(), h.before()
	for i, t := range h.Terms {
		l := lanes[t.Lane]
		c := change{
			At: h.since(t.From), Clock: clockOf(t.From), Group: l.Group, Leader: l.name(), Zone: l.Zone,
			Token: token(t.Token), Cause: t.Cause, Lasted: length(h.length(t.From, t.To)), Ended: t.Ended,
		}
		if t.To.IsZero() {
			c.Ended = cmp.Or(t.Ended, "goes on")
		}
		if b := before[i]; b >= 0 {
			c.Before, c.Overlaps = h.between(h.Terms[b], t)
		}
		all = append(all, c)
	}
	return all
}

// between says how long nobody led between two terms, or for how long both lasted.
func (h History) between(first, second Term) (words string, overlaps bool) {
	if gap := second.From.Sub(h.until(first)); gap >= 0 {
		return length(gap), false
	}
	_, shared := h.shared(first, second)
	return "two led for " + length(shared.Sub(second.From)), true
}

func (h History) failoverRows() (all []failoverRow) {
	lanes := h.laneOf()
	for _, f := range h.Failovers {
		l := lanes[f.Lane]
		r := failoverRow{
			At: h.since(f.begin()), Clock: clockOf(f.begin()), Group: l.Group, Leader: l.name(), Zone: l.Zone,
			Previous: f.Previous, Cause: f.Cause, Total: inMS(f.took()),
		}
		took := map[PhaseName]time.Duration{}
		for _, p := range f.Phases {
			took[p.Name] += p.To.Sub(p.From)
		}
		for _, name := range phases {
			cell := ""
			if d, ok := took[name]; ok {
				cell = inMS(d)
			}
			r.Phases = append(r.Phases, cell)
		}
		all = append(all, r)
	}
	return all
}

var kindWords = map[FaultKind]string{
	Power: "no power", API: "API away", Kill: "killed", Cut: "network cut", Freeze: "frozen", Other: "fault",
}

// incidents returns them in the order of time. Their IDs are those of the picture's items.
func (h History) incidents() (all []incident) {
	lanes := h.laneOf()
	add := func(id string, at time.Time, what, where, lasted string) {
		all = append(all, incident{id, h.since(at), clockOf(at), what, where, lasted, at})
	}
	for i, f := range h.Faults {
		where := "everywhere"
		switch {
		case f.Zone != "":
			where = "zone " + f.Zone
		case f.Lane != "":
			where = lanes[f.Lane].name()
		}
		lasted := length(h.length(f.From, f.To))
		switch {
		case f.To.IsZero():
			lasted += ", goes on"
		case f.To.Equal(f.From):
			lasted = ""
		}
		what := kindWords[f.Kind]
		if f.Text != "" {
			what += ": " + f.Text
		}
		add(fmt.Sprintf("fault-%d", i), f.From, what, where, lasted)
	}
	for i, e := range h.Expiries {
		add(fmt.Sprintf("expiry-%d", i), e.At, "the lease ends", lanes[e.Lane].name(), "")
	}
	for i, n := range h.Notes {
		add(fmt.Sprintf("note-%d", i), n.At, n.Text, lanes[n.Lane].name(), "")
	}
	sortBy(&all, func(i incident) time.Time { return i.from })
	return all
}

// since says how long after the beginning something was.
func (h History) since(t time.Time) string { return length(t.Sub(h.Begin)) }

func clockOf(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000") }

// length writes a duration with milliseconds, and without those above an hour.
func length(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.3f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %06.3f s", d/time.Minute, (d % time.Minute).Seconds())
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %02d min %02d s", d/time.Hour, d%time.Hour/time.Minute, d%time.Minute/time.Second)
	}
	const day = 24 * time.Hour
	return fmt.Sprintf("%d d %02d h %02d min", d/day, d%day/time.Hour, d%time.Hour/time.Minute)
}

func inMS(d time.Duration) string { return strconv.FormatFloat(ms(d), 'f', 1, 64) }
