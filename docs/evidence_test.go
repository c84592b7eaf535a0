// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// figure is a number with a unit, as a text has it: 2.93 s has two decimals.
type figure struct {
	value    float64
	decimals int
	unit     string
}

var (
	units = map[string]float64{"ms": 1e-3, "s": 1, "min": 60, "%": 1}
	// number is one with its unit, or a list or a range of numbers with the unit of the last.
	number = regexp.MustCompile(`((?:\d[\d,]*(?:\.\d+)?(?:, | to | and | / ))*\d[\d,]*(?:\.\d+)?) ?(ms|s|min|%)(?:[^\w%]|$)`)
	single = regexp.MustCompile(`\d[\d,]*(?:\.(\d+))?`)
)

// figuresIn returns the figures of a text.
func figuresIn(text string) (all []figure) {
	for _, m := range number.FindAllStringSubmatch(text, -1) {
		for _, n := range single.FindAllStringSubmatch(m[1], -1) {
			value, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSuffix(n[0], ","), ",", ""), 64)
			if err == nil {
				all = append(all, figure{value, len(n[1]), m[2]})
			}
		}
	}
	return all
}

// rounds reports whether f is g, as exactly as f is written.
func (f figure) rounds(g figure) bool {
	return (f.unit == "%") == (g.unit == "%") &&
		math.Abs(g.value*units[g.unit]/units[f.unit]-f.value) <= 0.5*math.Pow10(-f.decimals)+1e-9
}

func (f figure) in(all []figure) bool { return slices.ContainsFunc(all, f.rounds) }

// timings are the figures of the default timing, which a page may name anywhere.
var timings = figuresIn("15 s, 10 s, 2 s, 30 s, 4.85 s, 100 %")

// TestAPageQuotesTheFiguresOfTheEvidence: each claim of docs/evidence.md has the command that measures it again, and
// a line with a link to a claim has no figure that the claim has not.
func TestAPageQuotesTheFiguresOfTheEvidence(t *testing.T) {
	of, all := map[string][]figure{}, slices.Clone(timings)
	for _, claim := range strings.Split(read(t, "evidence.md"), "\n### ")[1:] {
		if !strings.Contains(claim, "\n\n    ") {
			t.Errorf("no command measures this again: %s", claim)
		}
		anchor := anchors("# " + claim)[0]
		of[anchor] = append(figuresIn(claim), timings...)
		all = append(all, of[anchor]...)
	}
	linked := regexp.MustCompile(`evidence\.md#([\w-]+)`)
	for name, text := range documents(t) {
		for line := range strings.Lines(text) {
			var known []figure
			for _, l := range linked.FindAllStringSubmatch(line, -1) {
				known = append(known, of[l[1]]...)
			}
			for _, f := range figuresIn(line) {
				if known != nil && !f.in(known) {
					t.Errorf("%s says %v %s, and docs/evidence.md does not: %s", name, f.value, f.unit, line)
				}
			}
		}
	}
	for _, picture := range []string{"zone-loss", "outage"} {
		for _, f := range figuresIn(read(t, "pictures/"+picture+".svg")) {
			if f.decimals > 0 && !f.in(all) {
				t.Errorf("the picture %s says %v %s, and docs/evidence.md does not", picture, f.value, f.unit)
			}
		}
	}
}
