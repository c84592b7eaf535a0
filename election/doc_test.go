// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// transition is a row of the table in doc.go.
type transition struct{ from, to string }

// made has the transitions that electors have made in this process.
var made = struct {
	sync.Mutex
	transitions map[transition]bool
}{transitions: map[transition]bool{}}

func init() {
	name := func(s state) string {
		if s == nil {
			return "idle"
		}
		_, name, _ := strings.Cut(fmt.Sprintf("%T", s), ".")
		return name
	}
	entered = func(from, to state) {
		made.Lock()
		defer made.Unlock()
		made.transitions[transition{name(from), name(to)}] = true
	}
}

// TestMain compares the table of states in doc.go with the transitions that the tests have
// made: the table must have every one, and, if all tests ran, each must have been made.
func TestMain(m *testing.M) {
	code := m.Run()
	all := true
	for _, name := range []string{"test.run", "test.skip", "test.list", "test.fuzz", "test.bench"} {
		all = all && flag.Lookup(name).Value.String() == ""
	}
	if complaints := compare(made.transitions, all && code == 0); len(complaints) > 0 {
		fmt.Println(strings.Join(complaints, "\n"))
		code = 1
	}
	os.Exit(code)
}

func compare(made map[transition]bool, all bool) (complaints []string) {
	listed := map[transition]bool{}
	for _, row := range rows(`([a-z]+) +([a-z]+) +\S`) {
		listed[transition{row[1], row[2]}] = true
	}
	for t := range made {
		if !listed[t] {
			complaints = append(complaints, fmt.Sprintf("doc.go does not have the transition from %s to %s, which an elector made", t.from, t.to))
		}
	}
	for t := range listed {
		if all && !made[t] {
			complaints = append(complaints, fmt.Sprintf("doc.go has a transition from %s to %s, which no test makes", t.from, t.to))
		}
	}
	return complaints
}

// rows returns the rows of doc.go that match, except the table's head.
func rows(pattern string) (rows [][]string) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		panic(err)
	}
	_, table, _ := strings.Cut(string(text), "\npackage election\n")
	for line := range strings.Lines(table) {
		row := regexp.MustCompile(`^//\t` + pattern).FindStringSubmatch(line)
		if row != nil && row[1] != "from" {
			rows = append(rows, row)
		}
	}
	return rows
}
