// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package pictures_test

import "fmt"

// In seconds after the power loss.
const (
	http2GivesUp = 45 // 30 s of silence and a ping of 15 s, see docs/why.md
	freshRead    = 3  // 1.5 RenewIntervals
)

// lossRun returns when an elector led again in the run of docs/evidence.json, and how long after the lease's
// end.
func lossRun(elector string) (leads, late float64) {
	const claim = "A lost zone at worst"
	return seconds(evidence(claim, elector, "the next leads after the cut")), seconds(evidence(claim, elector, "after the lease's end"))
}

// zoneLoss is the timeline of a zone's power loss.
func zoneLoss() *picture {
	zonelectLeads, zonelectLate := lossRun("zonelect")
	clientGoLeads, clientGoLate := lossRun("client-go")
	title := fmt.Sprintf("The leader's zone loses power, at worst: zonelect leads again after %.0f s, client-go after %.0f s", zonelectLeads, clientGoLeads)
	p := &picture{name: "zone-loss", title: title, width: 960, height: 372}
	const left, perSecond, last = 120, 12.6, 65
	at := func(second float64) float64 { return left + second*perSecond }

	p.heading(20, 30, 16, "start", "The leader's zone loses power: the worst case (15 s / 10 s / 2 s)")
	lane := func(y float64, name string, leads, late float64) {
		p.heading(20, y+24, 14, "start", name)
		end := leads - late
		p.bar("wait", at(0), y, at(end)-at(0), 38)
		p.text((at(0)+at(end))/2, y+24, 12, "middle", "the lease runs out")
		if late > 1 {
			p.bar("bad", at(end), y, at(leads)-at(end), 38)
			p.heading((at(end)+at(leads))/2, y+25, 17, "middle", fmt.Sprintf("+%.0f s: nobody leads", late))
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
	mark(zonelectLeads-1, 98, 38, "start", "checks that a connection is alive")
	mark(zonelectLeads, 98, 18, "start", fmt.Sprintf("leads after %.3f s, %.3f s behind the lease's end", zonelectLeads, zonelectLate))

	lane(186, "client-go", clientGoLeads, clientGoLate)
	p.text((at(clientGoLeads)+at(last))/2, 210, 12, "middle", "the next candidate leads")
	mark(http2GivesUp, 224, 18, "end", "HTTP/2 drops the dead connection: 30 s of silence, 15 s for a ping")
	mark(clientGoLeads, 224, 38, "end", fmt.Sprintf("leads after %.3f s, %.3f s behind the lease's end", clientGoLeads, clientGoLate))

	p.rule(at(0), 296, at(last), 296, "")
	for s := 0.; s <= 60; s += 10 {
		p.rule(at(s), 292, at(s), 300, "")
		p.note(at(s), 318, 12, "middle", fmt.Sprintf("%g s", s))
	}
	p.rule(at(0), 46, at(0), 296, "4 4")
	p.note(at(0), 338, 12, "middle", "power loss")
	p.note(20, 360, 12, "start", "One run of make demo REAL=1. The connections of all followers ran to the API server in the zone that died.")
	return p
}
