// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command mutants breaks the safety rules of docs/design*.md one at a time, and
// requires that the test named for each breakage finds it. The files of the
// repository stay as they are. It runs in the root of the repository.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

func main() {
	only := flag.String("run", "", "regular expression: only mutants whose rule, sentence or file matches")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := check(ctx, *only); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// check prints a line for each mutant that matches. It returns an error unless all are killed.
func check(ctx context.Context, only string) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	var chosen []mutant
	for _, m := range mutants {
		if slices.ContainsFunc([]string{m.rule, m.broken, m.file}, pattern.MatchString) {
			chosen = append(chosen, m)
		}
	}
	start := time.Now()
	if err := unbroken(ctx, chosen); err != nil {
		return err
	}
	var left atomic.Int64
	var all sync.WaitGroup
	slots := make(chan struct{}, runtime.NumCPU())
	for _, m := range chosen {
		slots <- struct{}{}
		all.Go(func() {
			start := time.Now()
			v, said := m.judged(ctx)
			if v == killed {
				said = ""
			} else {
				left.Add(1)
			}
			fmt.Printf("%s: %s: %s: %s by %s, %.1fs\n%s", m.rule, m.broken, m.file, v, path.Base(m.by), time.Since(start).Seconds(), said)
			<-slots
		})
	}
	all.Wait()
	fmt.Printf("%d mutants, %d killed, in %v\n", len(chosen), int64(len(chosen))-left.Load(), time.Since(start).Round(time.Second))
	if left.Load() > 0 {
		return fmt.Errorf("%d of %d mutants were not killed by their tests", left.Load(), len(chosen))
	}
	return ctx.Err()
}

// unbroken returns an error unless all tests pass while nothing is broken.
func unbroken(ctx context.Context, all []mutant) error {
	tests := map[string][]string{}
	for _, m := range all {
		if dir, name := path.Split(m.by); !slices.Contains(tests[dir], name) {
			tests[dir] = append(tests[dir], name)
		}
	}
	for dir, names := range tests {
		events, said, err := goTest(ctx, dir, strings.Join(names, "|"))
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

// judged runs the test of the mutant, and returns what the test says.
func (m mutant) judged(ctx context.Context) (v verdict, said string) {
	temporary, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return notRun, err.Error()
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	overlay, err := m.overlay(temporary)
	if err != nil {
		return notRun, err.Error()
	}
	dir, name := path.Split(m.by)
	events, said, err := goTest(ctx, dir, name, "-overlay="+overlay)
	if err != nil {
		return notRun, err.Error()
	}
	return judge(events, name), said
}

// overlay puts the broken file, and what go test needs to know about it, into a directory.
func (m mutant) overlay(dir string) (string, error) {
	original, err := filepath.Abs(m.file)
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

// applied returns the text of the file with the breakage in it.
func (m mutant) applied(text string) (string, error) {
	if n := strings.Count(text, m.old); n != 1 || m.old == m.new {
		return "", fmt.Errorf("%s: %s: %q stands %d times in %s, want once, and %q in its place", m.rule, m.broken, m.old, n, m.file, m.new)
	}
	return strings.Replace(text, m.old, m.new, 1), nil
}

// event is a line of go test -json.
type event struct {
	Action, Test, Output string
}

// goTest runs the tests of one directory. A failing test is not an error.
func goTest(ctx context.Context, dir, tests string, flags ...string) (events []event, said string, err error) {
	args := append([]string{"test", "-json", "-count=1", "-failfast", "-vet=off", "-timeout=2m", "-run=^(" + tests + ")$"}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, ".")...)
	cmd.Dir = dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, failed := cmd.Output()
	for line := range bytes.Lines(out) {
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

// A verdict is the outcome of a mutant.
type verdict string

const (
	killed   verdict = "killed"
	survived verdict = "SURVIVED"
	notRun   verdict = "NOT RUN"
	crashed  verdict = "DOES NOT BUILD, PANICS OR HANGS" // for reasons that may have nothing to do with the rule
)

// judge decides the verdict on a mutant by the output of its test. Only a failure of this very test kills
// it: a panic, a hang or a failed build says nothing about the rule.
func judge(events []event, test string) verdict {
	v := notRun
	for _, e := range events {
		switch {
		case e.Action == "build-fail", strings.HasPrefix(e.Output, "panic: "), strings.HasPrefix(e.Output, "fatal error: "):
			return crashed
		case e.Test == test && e.Action == "fail":
			v = killed
		case e.Test == test && e.Action == "pass":
			v = survived
		}
	}
	return v
}
