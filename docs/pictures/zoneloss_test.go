// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package pictures_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
)

// In seconds after the power loss.
const (
	http2GivesUp = 45 // 30 s of silence and a ping of 15 s, see docs/why.md
	freshRead    = 3  // 1.5 RenewIntervals
)

// readmesRun returns when an elector led again in the README's run of "make demo", and how long after
// the lease's end. Zero if the README does not say so: then no picture is right.
func readmesRun(elector string) (leads, late float64) {
	readme, _ := os.ReadFile("../../README.md")
	row := regexp.MustCompile(`(?m)^ {4}` + elector + ` +power loss of the leader's zone +([0-9.]+)s +([0-9.]+)s$`).FindSubmatch(readme)
	if row == nil {
		return 0, 0
	}
	leads, _ = strconv.ParseFloat(string(row[1]), 64)
	late, _ = strconv.ParseFloat(string(row[2]), 64)
	return leads, late
}

// zoneLoss is the timeline of a zone's power loss.
func zoneLoss() *picture {
	zonelectLeads, zonelectLate := readmesRun("zonelect")
	clientGoLeads, clientGoLate := readmesRun("client-go")
	title := fmt.Sprintf("The leader's zone loses power: zonelect leads again after %.0f s, client-go after %.0f s", zonelectLeads, clientGoLeads)
	p := &picture{name: "zone-loss", title: title, width: 960, height: 372}
	const left, perSecond, last = 120, 12.6, 65
	at := func(second float64) float64 { return left + second*perSecond }

	p.heading(20, 30, 16, "start", "The leader's zone loses power (15 s / 10 s / 2 s)")
	lane := func(y float64, name string, leads, late float64) {
		p.heading(20, y+24, 14, "start", name)
		end := leads - late
		p.bar("wait", at(0), y, at(end)-at(0), 38)
		p.text((at(0)+at(end))/2, y+24, 12, "middle", "the lease runs out")
		if late > 1 {
			p.bar("bad", at(end), y, at(leads)-at(end), 38)
			p.text((at(end)+at(leads))/2, y+24, 12, "middle", "nobody leads, although the lease has ended")
		}
		p.bar("good", at(leads), y, at(last)-at(leads), 38)
	}
	mark := func(second, y, drop float64, anchor, words string) {
		p.rule(at(second), y, at(second), y+drop, "")
		x := at(second) + map[string]float64{"start": 5, "end": -5}[anchor]
		p.note(x, y+drop, 12, anchor, words)
	}

	lane(60, "zonelect", zonelectLeads, zonelectLate)
	p.text((at(zonelectLeads)+at(last))/2, 84, 12, "middle", "the next candidate leads")
	mark(freshRead, 98, 58, "start", "hears nothing: reads on a fresh connection")
	mark(zonelectLeads-1, 98, 38, "start", "makes sure of a living connection")
	mark(zonelectLeads, 98, 18, "start", fmt.Sprintf("leads after %.3f s, %.3f s behind the lease's end", zonelectLeads, zonelectLate))

	lane(186, "client-go", clientGoLeads, clientGoLate)
	p.text((at(clientGoLeads)+at(last))/2, 210, 12, "middle", "leads")
	mark(http2GivesUp, 224, 18, "end", "HTTP/2 drops the dead connection: 30 s of silence, 15 s for a ping")
	mark(clientGoLeads, 224, 38, "end", fmt.Sprintf("leads after %.3f s, %.3f s behind the lease's end", clientGoLeads, clientGoLate))

	p.rule(at(0), 296, at(last), 296, "")
	for s := 0.; s <= 60; s += 10 {
		p.rule(at(s), 292, at(s), 300, "")
		p.note(at(s), 318, 12, "middle", fmt.Sprintf("%g s", s))
	}
	p.rule(at(0), 46, at(0), 296, "4 4")
	p.note(at(0), 338, 12, "middle", "power loss")
	p.note(20, 360, 12, "start", "One run of make demo: both followers' connections ran to the API server in the zone that died.")
	return p
}
