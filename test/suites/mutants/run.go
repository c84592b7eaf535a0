// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A mutant is a small breakage of a rule.
type mutant struct {
	rule   string
	broken string // in words
	file   string
	old    string // occurs in the file exactly once
	new    string
	by     string // directory/TestName of the test that kills it
}

// test is the directory and the name of the test.
func (m mutant) test() (dir, name string) { return path.Dir(m.by), path.Base(m.by) }

// applied returns the text of the file with the breakage in it.
func (m mutant) applied(text string) (string, error) {
	if n := strings.Count(text, m.old); n != 1 || m.old == m.new {
		return "", fmt.Errorf("%s: %s: %q stands %d times in %s, want once, and %q in its place", m.rule, m.broken, m.old, n, m.file, m.new)
	}
	return strings.Replace(text, m.old, m.new, 1), nil
}

// A verdict is the outcome of a mutant.
type verdict string

const (
	killed   verdict = "killed"
	survived verdict = "SURVIVED"
	noBuild  verdict = "DOES NOT BUILD"
	crashed  verdict = "CRASHED" // for reasons that may have nothing to do with the rule
	timedOut verdict = "TIMED OUT"
	notRun   verdict = "NOT RUN"
)

type result struct {
	verdict verdict
	said    string // what the tests printed
	took    time.Duration
}

// A runner runs tests.
type runner struct {
	root    string
	timeout time.Duration
}

// event is a line of go test -json.
type event struct {
	Action, Test, Output string
}

// unbroken returns an error unless all tests pass while nothing is broken.
func (r runner) unbroken(ctx context.Context, all []mutant) error {
	tests := map[string][]string{}
	for _, m := range all {
		if dir, name := m.test(); !slices.Contains(tests[dir], name) {
			tests[dir] = append(tests[dir], name)
		}
	}
	for dir, names := range tests {
		events, said, err := r.goTest(ctx, dir, "^("+strings.Join(names, "|")+")$")
		if err != nil {
			return err
		}
		for _, name := range names {
			if v := judge(events, name); v != survived {
				return fmt.Errorf("with nothing broken %s in %s should pass: %s\n%s", name, dir, v, said)
			}
		}
	}
	return nil
}

// breakage runs the test of one mutant.
func (r runner) breakage(ctx context.Context, m mutant) result {
	start := time.Now()
	dir, name := m.test()
	temporary, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return result{verdict: notRun, said: err.Error()}
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	overlay, err := r.overlay(temporary, m)
	if err != nil {
		return result{verdict: notRun, said: err.Error()}
	}
	events, said, err := r.goTest(ctx, dir, "^"+name+"$", "-overlay="+overlay)
	if err != nil {
		return result{verdict: notRun, said: err.Error()}
	}
	return result{judge(events, name), said, time.Since(start)}
}

// overlay puts the broken file, and what go test needs to know about it, into a
// directory.
func (r runner) overlay(dir string, m mutant) (string, error) {
	original, err := filepath.Abs(filepath.Join(r.root, m.file))
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	broken, err := m.applied(string(text))
	if err != nil {
		return "", err
	}
	instead := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(instead, []byte(broken), 0o600); err != nil {
		return "", err
	}
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{original: instead}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, replace, 0o600)
}

// goTest runs the tests of one directory. A failing test is not an error.
func (r runner) goTest(ctx context.Context, dir, tests string, flags ...string) (events []event, said string, err error) {
	args := append([]string{"test", "-json", "-count=1", "-failfast", "-vet=off", "-timeout=" + r.timeout.String(), "-run=" + tests}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, ".")...)
	cmd.Dir = filepath.Join(r.root, dir)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	failed := cmd.Run()
	for line := range bytes.Lines(out.Bytes()) {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, "", fmt.Errorf("reading what go test in %s says: %w: %s", dir, err, line)
		}
		events = append(events, e)
		said += e.Output
	}
	if len(events) == 0 {
		return nil, "", fmt.Errorf("go test in %s: %w: %s", dir, failed, &errs)
	}
	return events, said, nil
}

// judge decides the verdict on a mutant by the output of its test. Only a
// failure of this very test kills it: a panic, a hang or a failed build says
// nothing about the rule.
func judge(events []event, test string) verdict {
	v := notRun
	for _, e := range events {
		switch {
		case e.Action == "build-fail":
			return noBuild
		case strings.HasPrefix(e.Output, "panic: test timed out"):
			return timedOut
		case strings.HasPrefix(e.Output, "panic: "), strings.HasPrefix(e.Output, "fatal error: "):
			return crashed
		case e.Test == test && e.Action == "fail":
			v = killed
		case e.Test == test && e.Action == "pass":
			v = survived
		}
	}
	return v
}
