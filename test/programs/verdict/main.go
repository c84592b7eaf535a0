// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command verdict judges the gate's tests: a test that was skipped is a failure, unless
// test/quarantine.txt lists it with a reason.
//
//	verdict skip               prints what go test -skip leaves out: the flaky tests
//	verdict judge FILE...      judges what go test -json wrote, and prints the quarantine
//
// It runs in the repository's root.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

const (
	list     = "test/quarantine.txt"
	module   = "github.com/zonelect/zonelect/"
	maxFlaky = 5
	maxAge   = 14 * 24 * time.Hour
)

// An entry is a line of the list.
type entry struct {
	kind, dir, test string
	since           time.Time // of a flaky test
	why             string
}

var line = regexp.MustCompile(`^(flaky|skips)\s+(\S+)\s+(Test\S+)\s+(?:(\d{4}-\d\d-\d\d)\s+)?(.+)$`)

// parse reads the list. A flaky test is listed for fourteen days, and there are five of them, at most.
func parse(text string, today time.Time) ([]entry, error) {
	var all []entry
	var wrong []error
	flaky := 0
	for n, l := range strings.Split(text, "\n") {
		if l = strings.TrimSpace(l); l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		f := line.FindStringSubmatch(l)
		if f == nil || (f[1] == "flaky") != (f[4] != "") {
			wrong = append(wrong, fmt.Errorf("line %d is neither \"flaky DIR TEST DAY WHY\" nor \"skips DIR TEST WHY\": %s", n+1, l))
			continue
		}
		e := entry{kind: f[1], dir: f[2], test: f[3], why: f[5]}
		if e.kind == "flaky" {
			flaky++
			var err error
			if e.since, err = time.Parse(time.DateOnly, f[4]); err != nil {
				wrong = append(wrong, fmt.Errorf("line %d: %w", n+1, err))
			} else if today.Sub(e.since) > maxAge {
				wrong = append(wrong, fmt.Errorf("line %d: %s has been flaky for more than fourteen days: mend or delete it", n+1, e.test))
			}
		}
		all = append(all, e)
	}
	if flaky > maxFlaky {
		wrong = append(wrong, fmt.Errorf("%d tests are flaky, and %d may be: mend or delete some", flaky, maxFlaky))
	}
	return all, errors.Join(wrong...)
}

// exists reports whether the entry names a test function.
func (e entry) exists() bool {
	name, _, _ := strings.Cut(e.test, "/")
	files, _ := filepath.Glob(filepath.Join(e.dir, "*_test.go")) // the pattern is well-formed
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), "func "+name+"(") {
			return true
		}
	}
	return false
}

// pattern is what go test -skip leaves out.
func pattern(all []entry) string {
	var names []string
	for _, e := range all {
		if e.kind == "flaky" {
			names = append(names, "^"+strings.ReplaceAll(regexp.QuoteMeta(e.test), "/", "$/^")+"$")
		}
	}
	if names == nil {
		return "^$"
	}
	return strings.Join(names, "|")
}

// judge returns an error for each test that was skipped and is not listed. An input of a fuzz target is no test.
func judge(events io.Reader, all []entry) error {
	var wrong []error
	for d := json.NewDecoder(events); ; {
		var event struct{ Action, Package, Test string }
		if err := d.Decode(&event); errors.Is(err, io.EOF) {
			return errors.Join(wrong...)
		} else if err != nil {
			return fmt.Errorf("read what go test wrote: %w", err)
		}
		dir := strings.TrimPrefix(event.Package, module)
		if event.Action == "skip" && strings.HasPrefix(event.Test, "Test") && !listed(all, dir, event.Test) {
			wrong = append(wrong, fmt.Errorf("%s in %s was skipped, and %s does not list it", event.Test, dir, list))
		}
	}
}

// listed reports whether a test, or the test that it is a part of, is listed.
func listed(all []entry, dir, test string) bool {
	for _, e := range all {
		if e.dir == dir && (e.test == test || strings.HasPrefix(test, e.test+"/")) {
			return true
		}
	}
	return false
}

func run(args []string) error {
	text, err := os.ReadFile(list)
	if err != nil {
		return fmt.Errorf("run it in the repository's root: %w", err)
	}
	all, err := parse(string(text), time.Now())
	for _, e := range all {
		if !e.exists() {
			err = errors.Join(err, fmt.Errorf("there is no %s in %s any more: remove its line", e.test, e.dir))
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", list, err)
	}
	switch {
	case len(args) == 1 && args[0] == "skip":
		fmt.Println(pattern(all))
		return nil
	case len(args) > 1 && args[0] == "judge":
		var wrong []error
		for _, name := range args[1:] {
			file, err := os.Open(name)
			if err != nil {
				return fmt.Errorf("read what go test wrote: %w", err)
			}
			wrong = append(wrong, judge(bufio.NewReader(file), all))
			_ = file.Close()
		}
		fmt.Printf("== %s:\n%s", list, text)
		return errors.Join(wrong...)
	}
	return errors.New("say \"verdict skip\" or \"verdict judge FILE...\"")
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "verdict:", err)
		os.Exit(1)
	}
}
