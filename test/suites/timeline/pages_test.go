// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package timeline_test opens the pages of package timeline in Chromium: browser.js clicks,
// zooms, types and measures. The pictures that it takes are in build/timeline.
//
//	make timeline
package timeline_test

import (
	"fmt"
	"time"

	"github.com/zonelect/zonelect/internal/timeline"
)

var begin = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// at is so many seconds after the beginning.
func at(seconds float64) time.Time { return begin.Add(time.Duration(seconds * float64(time.Second))) }

// evil is a name that is dangerous in HTML, in a script and in a data block.
const evil = `</script><script>alert("script")</script><img src=x onerror=alert("image")>`

// pages are the histories that browser.js opens, by the names of their files.
func pages() map[string]timeline.History {
	return map[string]timeline.History{
		"demo": demo("Demo: the leader's zone loses power"), "evil": evilNames(), "empty": {Title: "Nothing"},
		"everything": everything(), "many": many(100, 100), "long": many(5, 2000),
	}
}

// demo is like a run of make demo.
func demo(title string) timeline.History {
	h := timeline.History{
		Title: title, Begin: begin, End: at(72), Zones: []string{"za", "zb", "zc"},
		Faults:   []timeline.Fault{{Kind: timeline.Power, Zone: "za", From: at(10.1), Text: "zone za loses power"}},
		Expiries: []timeline.Expiry{{Lane: "candidate-za", At: at(24.987)}, {Lane: "peer-za", At: at(25.4)}},
		Terms: []timeline.Term{
			{Lane: "candidate-za", From: at(0.9), To: at(10.1), Token: 214, Cause: "vacant", Ended: "power loss"},
			{Lane: "peer-za", From: at(2.6), To: at(10.1), Token: 231, Ended: "power loss"},
			{Lane: "candidate-zb", From: at(24.992), Token: 305, Cause: "expired"},
			{Lane: "peer-zc", From: at(69.3), Token: 412},
		},
		Failovers: []timeline.Failover{
			{Lane: "candidate-zb", Previous: "candidate-za", Cause: "expired", Token: 305, Phases: []timeline.Phase{
				{Name: timeline.Silence, From: at(9.987), To: at(24.987)}, {Name: timeline.TakeoverDelay, From: at(24.987), To: at(24.9875)},
				{Name: timeline.Acquire, From: at(24.9875), To: at(24.991)}, {Name: timeline.Adopt, From: at(24.991), To: at(24.9914)},
				{Name: timeline.WorkStart, From: at(24.9914), To: at(24.992)},
			}},
			{Lane: "peer-zc", Previous: "peer-za", Token: 412, Phases: []timeline.Phase{
				{Name: timeline.Silence, From: at(10.4), To: at(25.4)}, {Name: timeline.Idle, From: at(25.4), To: at(69.3)},
			}},
		},
	}
	for _, zone := range h.Zones {
		h.Lanes = append(h.Lanes, timeline.Lane{ID: "candidate-" + zone, Zone: zone, Group: "zonelect"})
		h.Lanes = append(h.Lanes, timeline.Lane{ID: "peer-" + zone, Zone: zone, Group: "client-go"})
	}
	return h
}

// everything has each kind of fault, notes, two leaders at a time and long names.
func everything() timeline.History {
	h := demo("Everything that can be drawn, with two leaders at a time and with names that are as long as those of pods in a real cluster can be")
	h.Lanes[2].Name = "payments-controller-manager-7d9f8b6c5d-x2x9q_6f0c2a1e-8a55-4b51-9a5e-2f1f3c0f9e77"
	h.Lanes = append(h.Lanes, timeline.Lane{ID: "unknown", Name: "candidate-without-a-zone", Group: "leader-for-life, operator-sdk 0.18.1 on"})
	h.Terms = append(h.Terms, timeline.Term{Lane: "unknown", From: at(3), To: at(30), Token: 1<<63 + 1, Ended: "killed"}, timeline.Term{Lane: "candidate-zc", From: at(40), Token: 330})
	h.Faults = append(h.Faults,
		timeline.Fault{Kind: timeline.API, From: at(31), To: at(36), Text: "no API server answers"},
		timeline.Fault{Kind: timeline.Cut, Zone: "zb", From: at(42), To: at(50), Text: "zb is cut off from the others"},
		timeline.Fault{Kind: timeline.Freeze, Lane: "peer-zc", From: at(20), To: at(24)},
		timeline.Fault{Kind: timeline.Kill, Lane: "unknown", From: at(30), To: at(30)},
		timeline.Fault{Kind: timeline.Other, Zone: "zb", From: at(43), To: at(46), Text: "and its disk is slow"},
	)
	h.Notes = []timeline.Note{
		{At: at(5), Text: "all candidates are there"}, {At: at(5.5), Text: "just after that"},
		{At: at(45), Lane: "candidate-zb", Text: "renewal refused"}, {At: at(71.9), Text: "the end"},
	}
	return h
}

func evilNames() timeline.History {
	h := demo(evil)
	h.Zones[1] = evil
	for i, l := range h.Lanes {
		h.Lanes[i].Name, h.Lanes[i].Group = evil, evil
		if l.Zone == "zb" {
			h.Lanes[i].Zone = evil
		}
	}
	h.Terms[0].Cause, h.Terms[0].Ended, h.Faults[0].Text = evil, evil, evil
	h.Failovers[0].Previous, h.Failovers[0].Cause = evil, evil
	h.Notes = []timeline.Note{{At: at(3), Text: evil}}
	return h
}

// many has so many lanes with so many terms each, one after the other.
func many(lanes, terms int) timeline.History {
	h := timeline.History{Title: fmt.Sprintf("%d terms", lanes*terms), Begin: begin}
	for i := range lanes {
		id := fmt.Sprintf("candidate-%02d", i)
		h.Lanes = append(h.Lanes, timeline.Lane{ID: id, Zone: fmt.Sprintf("z%d", i%3), Group: "lock"})
		for j := range terms {
			from := float64(j*lanes + i)
			h.Terms = append(h.Terms, timeline.Term{Lane: id, From: at(from), To: at(from + 0.9), Token: uint64(j*lanes + i + 1), Cause: "expired"})
			h.Expiries = append(h.Expiries, timeline.Expiry{Lane: id, At: at(from + 0.9)})
		}
	}
	return h
}
