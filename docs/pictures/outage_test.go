// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package pictures_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// evidence returns the cells of a claim's table in docs/evidence.json: in the row that begins so, below
// that column. It is empty if there is none: then no picture is right.
func evidence(claim, row, column string) string {
	var all struct {
		Parts []struct {
			Claims []struct {
				Heading string
				Columns []string
				Rows    [][]string
			}
		}
	}
	text, _ := os.ReadFile("../evidence.json")
	_ = json.Unmarshal(text, &all) // a test of docs holds its form
	for _, part := range all.Parts {
		for _, c := range part.Claims {
			i := slices.Index(c.Columns, column)
			for _, r := range c.Rows {
				if c.Heading == claim && i > 0 && strings.HasPrefix(r[0], row) {
					return r[i]
				}
			}
		}
	}
	return ""
}

// seconds returns the last number of seconds in a cell.
func seconds(cell string) float64 {
	all := regexp.MustCompile(`([0-9.]+) s`).FindAllStringSubmatch(cell, -1)
	if all == nil {
		return 0
	}
	s, _ := strconv.ParseFloat(all[len(all)-1][1], 64)
	return s
}

// outage is a term through an outage of all API servers of 20 s.
func outage() *picture {
	const claim, lasts = "What an outage costs", 20.
	theirs := evidence(claim, "controller-runtime's own election, 15/10/2", "20 s")
	stops := seconds(evidence(claim, "NewLasting, 15/10/2", "20 s"))
	restarts, _, _ := strings.Cut(theirs, ";")
	again := lasts + seconds(theirs)
	if evidence(claim, "NewLasting, 60/54/6", "20 s") != "nothing" || restarts != "1" {
		stops = 0 // the picture does not show what was measured
	}

	p := &picture{name: "outage", title: "All API servers are away for 20 s: what controllers do with controller-runtime's election and with zonelect's", width: 960, height: 366}
	const left, perSecond, last = 190, 18.4, 40.
	at := func(s float64) float64 { return round(left + (s+1)*perSecond) }
	p.heading(20, 30, 16, "start", "All API servers are away for 20 s")
	p.bar("dark", at(0), 44, at(lasts)-at(0), 262)
	p.note((at(0)+at(lasts))/2, 60, 12, "middle", "the API is away")
	lane := func(y float64, name, detail string) {
		p.heading(20, y+16, 14, "start", name)
		p.note(20, y+34, 12, "start", detail)
	}
	part := func(class string, from, to, y float64, words string) {
		p.bar(class, at(from), y, round(at(to)-at(from)), 42)
		p.text((at(from)+at(to))/2, y+26, 12, "middle", words)
	}
	lane(72, "controller-runtime", "its own election")
	part("good", -1, stops, 72, "controllers work")
	part("bad", stops, again, 72, "\"leader election lost\": the process ends, and restarts once")
	part("good", again, last, 72, "work")
	p.note(at(again)-4, 132, 12, "end", fmt.Sprintf("%.1f s after the return", seconds(theirs)))
	lane(146, "NewLasting", "15/10/2")
	part("good", -1, stops, 146, "controllers work")
	part("wait", stops, lasts+1, 146, "stopped; caches stay")
	part("good", lasts+1, last, 146, "controllers work again within 1 s")
	lane(220, "NewLasting", "60/54/6, one replica")
	part("good", -1, last, 220, "controllers work")

	p.rule(at(-1), 306, at(last), 306, "")
	for s := 0.; s <= last; s += 5 {
		p.rule(at(s), 302, at(s), 310, "")
		p.note(at(s), 328, 12, "middle", fmt.Sprintf("%g s", s))
	}
	p.note(20, 352, 12, "start", "Measured: make outlive. With NewLasting, webhooks and probes answer throughout.")
	return p
}
