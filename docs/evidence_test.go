// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write evidence.md")

// evidence is docs/evidence.json: each figure that was measured stands there once.
type evidence struct {
	Environment string
	Parts       []struct {
		Title  string
		Claims []claim
	}
}

// claim is something that was measured, with a table of figures if one sentence does not hold them, its conditions,
// and how to measure it again.
type claim struct {
	Heading, Claim, Conditions, Command string
	Columns                             []string
	Rows                                [][]string
}

func (c claim) anchor() string { return anchors("# " + c.Heading)[0] }

func (c claim) figures() (all []figure) {
	for _, column := range c.Columns {
		all = append(all, figuresIn(column)...)
	}
	for _, row := range c.Rows {
		for _, cell := range row[1:] {
			all = append(all, figuresIn(cell)...)
		}
	}
	return append(all, figuresIn(c.Claim+" "+c.Conditions)...)
}

func theEvidence(t *testing.T) (e evidence) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, "evidence.json")), &e); err != nil {
		t.Fatal(err)
	}
	return e
}

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

// table returns a table of Markdown. Cells hold no "|".
func table(heads []string, rows [][]string) string {
	text := "| " + strings.Join(heads, " | ") + " |\n|" + strings.Repeat("---|", len(heads)) + "\n"
	for _, row := range rows {
		text += "| " + strings.Join(row, " | ") + " |\n"
	}
	return strings.ReplaceAll(text, "|  |", "| |")
}

func TestThePageOfEvidenceIsThatOfItsData(t *testing.T) {
	e := theEvidence(t)
	page := &strings.Builder{}
	fmt.Fprintf(page, "# Evidence\n\n<!-- Generated from evidence.json: go test ./docs -run Evidence -update -->\n\n"+
		"Each figure has its conditions, and the command that measures it again.\n\n%s\n", e.Environment)
	seen := map[string]bool{}
	for _, p := range e.Parts {
		fmt.Fprintf(page, "\n## %s\n", p.Title)
		for _, c := range p.Claims {
			if seen[c.anchor()] || c.Command == "" || c.Conditions == "" {
				t.Errorf("%q stands there twice, or has no command or conditions", c.Heading)
			}
			seen[c.anchor()] = true
			for _, row := range c.Rows {
				if len(row) != len(c.Columns) {
					t.Errorf("%q: %q has not the columns %q", c.Heading, row, c.Columns)
				}
			}
			fmt.Fprintf(page, "\n### %s\n\n%s\n\n", c.Heading, c.Claim)
			if len(c.Rows) > 0 {
				fmt.Fprintf(page, "%s\n", table(c.Columns, c.Rows))
			}
			fmt.Fprintf(page, "%s%s:\n\n    %s\n", strings.ToUpper(c.Conditions[:1]), c.Conditions[1:], c.Command)
		}
	}
	if *update {
		if err := os.WriteFile("evidence.md", []byte(page.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, "evidence.md") != page.String() {
		t.Error("evidence.md is not what evidence.json says: run go test ./docs -run Evidence -update")
	}
}

// timings are the figures of the default timing, which a page may name anywhere.
var timings = figuresIn("15 s, 10 s, 2 s, 30 s, 4.85 s, 100 %")

// TestAPageQuotesTheFiguresOfTheEvidence: a line with a link to a claim has no figure that the claim has not,
// and a table of the README or of docs/why.md none that no claim has.
func TestAPageQuotesTheFiguresOfTheEvidence(t *testing.T) {
	of := map[string][]figure{}
	all := slices.Clone(timings)
	for _, p := range theEvidence(t).Parts {
		for _, c := range p.Claims {
			of[c.anchor()] = append(slices.Clone(timings), c.figures()...)
			all = append(all, of[c.anchor()]...)
		}
	}
	linked := regexp.MustCompile(`evidence\.md#([\w-]+)`)
	for name, text := range documents(t) {
		if name == "docs/evidence.md" {
			continue
		}
		for line := range strings.Lines(text) {
			var known []figure
			for _, l := range linked.FindAllStringSubmatch(line, -1) {
				known = append(known, of[l[1]]...)
			}
			if known == nil && (name == "README.md" || name == "docs/why.md") && strings.HasPrefix(line, "|") {
				known = all
			}
			for _, f := range figuresIn(line) {
				if known != nil && !f.in(known) {
					t.Errorf("%s says %v %s, and docs/evidence.json does not: %s", name, f.value, f.unit, line)
				}
			}
		}
	}
	for _, picture := range []string{"zone-loss", "outage"} {
		for _, f := range figuresIn(read(t, "pictures/"+picture+".svg")) {
			if f.decimals > 0 && !f.in(all) {
				t.Errorf("the picture %s says %v %s, and docs/evidence.json does not", picture, f.value, f.unit)
			}
		}
	}
}

func TestAFigureIsQuotedAsExactlyAsItIsWritten(t *testing.T) {
	measured := figuresIn("13.869 s, 90 ms, 12 to 42 %, 1,000 locks and 1.5 s of 21.2, 23.6 s, 60/54/6")
	for text, want := range map[string]bool{
		"14 s": true, "13.9 s": true, "13.8 s": false, "0.09 s": true, "12 %": true, "42 s": false, "1.5 s": true, "21.2 s": true, "6 s": false,
	} {
		if got := figuresIn(text)[0].in(measured); got != want {
			t.Errorf("%s is quoted from %v: %v, want %v", text, measured, got, want)
		}
	}
	if n := len(figuresIn("a slot, 3 shards, 15/10/2")); n != 0 {
		t.Errorf("it has %d figures", n)
	}
}
