// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/spans"
)

// Where the axis of time is, and how far apart its rows are.
const left, right, row = 210, 930, 26

// colors are those of bars. A candidate waits until the lease has ended, takes the lock, and leads.
var colors = map[string]string{"leads": "#aceebb", "election.silence": "#fff3b0", "nobody leads": "#ffcecb"}

// picture is an SVG that grows downwards.
type picture struct {
	from, to time.Time
	y        float64
	body     strings.Builder
}

func (p *picture) x(at time.Time) float64 {
	return left + (right-left)*at.Sub(p.from).Seconds()/p.to.Sub(p.from).Seconds()
}

func (p *picture) text(x, y float64, words string) {
	fmt.Fprintf(&p.body, `<text x="%.1f" y="%.1f">%s</text>`+"\n", x, y, words)
}

func (p *picture) rule(x, from, to float64, color string) {
	fmt.Fprintf(&p.body, `<path d="M%.1f %.1fV%.1f" stroke="%s"/>`+"\n", x, from, to, color)
}

// bar draws a time in the last row, at least two pixels wide. A browser shows what it was.
func (p *picture) bar(what string, from, to time.Time) {
	color := colors[what]
	if color == "" {
		color = "#80ccff"
	}
	fmt.Fprintf(&p.body, `<rect x="%.1f" y="%.1f" width="%.1f" height="18" fill="%s" stroke="#818b98"><title>%s, %.3f s</title></rect>`+"\n",
		p.x(from), p.y-14, max(2, p.x(to)-p.x(from)), color, what, to.Sub(from).Seconds())
}

// draw returns the picture of a demo that ended at end.
func (d *demo) draw(end time.Time) []byte {
	p := &picture{from: d.start, to: end, y: 30}
	p.text(20, p.y, "Zone "+zones[0]+" loses power. Green: leads. Yellow: the lease runs out. Red: nobody leads.")
	for _, t := range d.teams {
		p.y += row + 8
		p.text(20, p.y, fmt.Sprintf("%s: new leader after %.3f s; behind the lease's end: %.3f s",
			t.name, t.after.Seconds(), t.behindLease.Seconds()))
		for _, s := range t.seats {
			p.y += row
			p.text(30, p.y, s.Identity)
			over := end
			if s.Zone == zones[0] {
				over = d.cut
			}
			for _, led := range terms(s.Events(), over) {
				p.bar("leads", led.StartTime, led.EndTime)
			}
			if s.Identity == t.nextLeader {
				for _, phase := range t.phases(d.cut) {
					p.bar(phase.Name, phase.StartTime, phase.EndTime)
				}
			}
		}
	}
	p.y += row
	p.rule(p.x(d.cut), 40, p.y, "#cf222e")
	for at := d.start; at.Before(end); at = at.Add(10 * time.Second) {
		p.rule(p.x(at), p.y-6, p.y, "#818b98")
		p.text(p.x(at), p.y+14, fmt.Sprintf("%.0f s", at.Sub(d.start).Seconds()))
	}
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" width="960" height="%[1]g" font-family="sans-serif" font-size="13">
<title>The power loss of the leader's zone</title>
<rect width="960" height="%[1]g" fill="#ffffff"/>
%[2]s</svg>
`, p.y+30, p.body.String())
}

// terms are the times in which a candidate led. The last one ends with the candidate at the latest.
func terms(printed []events.Event, over time.Time) (all []spans.Span) {
	for _, e := range printed {
		switch last := len(all) - 1; {
		case e.Time.After(over):
		case e.Event == "leading":
			all = append(all, spans.Span{StartTime: e.Time, EndTime: over})
		case e.Event == "stopped" && last >= 0:
			all[last].EndTime = e.Time
		}
	}
	return all
}

// phases are those of a takeover: as its trace says, or else as it looked from outside.
func (t *team) phases(cut time.Time) []spans.Span {
	if len(t.trace.Phases) > 0 {
		return t.trace.Phases
	}
	return []spans.Span{
		{Name: "election.silence", StartTime: t.end.Add(-lease), EndTime: t.end},
		{Name: "nobody leads", StartTime: t.end, EndTime: cut.Add(t.after)},
	}
}
