// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command model runs Spin over docs/model/shield.pml: with all rules on it may
// find nothing, with a rule switched off it must find something, and known
// limits must still show. It needs spin and a C compiler on PATH.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

func main() {
	var o options
	flag.BoolVar(&o.long, "long", false, "the large populations too")
	flag.BoolVar(&o.trace, "trace", false, "print each shortest counterexample")
	flag.IntVar(&o.memory, "memory", 4000, "megabytes that one search may take")
	only := flag.String("run", "", "regular expression: only cases whose name or rule matches")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := check(ctx, o, *only); err != nil {
		fmt.Fprintln(os.Stderr, "model:", err)
		os.Exit(1)
	}
}

type options struct {
	long, trace bool
	memory      int
}

// parallel is how many searches run at a time.
const parallel = 2

// A result is what a search found; took leaves the compiler out.
type result struct {
	found  string
	states string
	took   time.Duration
	steps  []string
	err    error
}

// check runs the cases and prints a row for each, in their order.
func check(ctx context.Context, o options, only string) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	for _, tool := range []string{"spin", "cc"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w (Debian packages spin and gcc)", err)
		}
	}
	var cases []run
	for _, r := range runs(o.long) {
		if pattern.MatchString(r.name) || pattern.MatchString(r.rule) {
			cases = append(cases, r)
		}
	}

	results := make([]chan result, len(cases))
	for i := range results {
		results[i] = make(chan result, 1)
	}
	go func() {
		var workers errgroup.Group
		workers.SetLimit(parallel)
		for i, c := range cases {
			workers.Go(func() error { results[i] <- o.search(ctx, c); return nil })
		}
	}()

	const row = "%-42s %-44s %-9s %-9s %10s %7s%s\n"
	fmt.Printf(row, "case", "rules off", "expected", "found", "states", "time", "")
	wrong := 0
	start := time.Now()
	for i, c := range cases {
		r, mark := <-results[i], ""
		if r.err != nil {
			r.found, mark = "error", "  WRONG: "+r.err.Error()
		} else if r.found != c.expect {
			mark = "  WRONG"
		}
		if mark != "" {
			wrong++
		}
		fmt.Printf(row, c.name, c.rule, c.expect, r.found, r.states, fmt.Sprintf("%.1fs", r.took.Seconds()), mark)
		if o.trace || mark != "" {
			printSteps(r.steps)
		}
	}
	fmt.Printf("%d cases, %d wrong, %.0fs\n", len(cases), wrong, time.Since(start).Seconds())
	if wrong > 0 {
		return fmt.Errorf("%d of %d cases are not as expected", wrong, len(cases))
	}
	return nil
}

// printSteps prints a counterexample; if the search was not for the shortest
// one, it prints only the end.
func printSteps(all []string) {
	from := max(0, len(all)-maxSteps)
	if from > 0 {
		fmt.Printf("    ... %d steps\n", from)
	}
	for n, step := range all[from:] {
		fmt.Printf("    %3d. %s\n", from+n+1, step)
	}
}

const maxSteps = 60

// search generates, compiles and runs the verifier of one case.
func (o options) search(ctx context.Context, c run) result {
	dir, err := os.MkdirTemp("", "model-")
	if err != nil {
		return result{err: err}
	}
	defer func() { _ = os.RemoveAll(dir) }()
	text, err := os.ReadFile("docs/model/shield.pml")
	if err != nil {
		return result{err: err}
	}
	if err := os.WriteFile(filepath.Join(dir, "model.pml"), text, 0o644); err != nil {
		return result{err: err}
	}

	var spin []string
	for _, m := range c.macros {
		spin = append(spin, "-D"+m)
	}
	// Breadth first finds the shortest counterexample; a circle needs depth first.
	cflags := []string{"-DSAFETY", "-DBFS"}
	args := []string{"-E", "-c1"}
	if c.live {
		spin = append(spin, "-DLIVE")
		cflags = []string{"-DCOLLAPSE"}
		args = []string{"-a", "-m5000000", "-c1"}
	}
	if out, err := command(ctx, dir, "spin", append(spin, "-a", "model.pml")...); err != nil {
		return result{err: fmt.Errorf("spin: %w: %s", err, out)}
	}
	// A search that finds something ends soon: optimizing would cost more time than it
	// saves.
	optimize := "-O0"
	if c.expect == nothing {
		optimize = "-O1"
	}
	cflags = append(cflags, optimize, "-w", "-DNOREDUCE", "-DMEMLIM="+strconv.Itoa(o.memory), "-o", "pan", "pan.c")
	if out, err := command(ctx, dir, "cc", cflags...); err != nil {
		return result{err: fmt.Errorf("cc: %w: %s", err, out)}
	}
	start := time.Now()
	out, err := command(ctx, dir, "./pan", args...)
	r := judge(out, c)
	r.took = time.Since(start)
	if err != nil && r.err == nil {
		r.err = err
	}
	if r.found != nothing && r.err == nil {
		replay, _ := command(ctx, dir, "spin", append(spin, "-t", "model.pml")...)
		r.steps = steps(replay)
	}
	return r
}

func command(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

var (
	statesOf = regexp.MustCompile(`(\S+) states, stored`)
	errorsOf = regexp.MustCompile(`errors: (\d+)`)
)

// judge reads the verifier's report.
func judge(out string, c run) result {
	var r result
	if m := statesOf.FindStringSubmatch(out); m != nil {
		r.states = m[1]
	}
	m := errorsOf.FindStringSubmatch(out)
	switch {
	case m == nil:
		r.err = errors.New("the verifier did not finish: " + lastLine(out))
	case strings.Contains(out, "max search depth too small"):
		r.err = errors.New("the search was cut at its depth")
	case m[1] == "0" && strings.Contains(out, "Search not completed"):
		r.err = errors.New("the search was not completed: " + lastLine(out))
	case m[1] == "0":
		r.found = nothing
	case strings.Contains(out, "acceptance cycle"):
		r.found = circle
	case strings.Contains(out, "(lead==0)"), strings.Contains(out, "!(idle)"):
		r.found = deadEnd
	case strings.Contains(out, "!(two)"):
		r.found = overlap
	case strings.Contains(out, "lead&kl"):
		r.found = overlap
		if strings.Contains(strings.Join(c.macros, " "), "CHECK=2") {
			r.found = lasting
		}
	case strings.Contains(out, "assertion violated 0"):
		r.found = reached
	default:
		r.err = errors.New("an error that is not the model's: " + lastLine(out))
	}
	return r
}

// steps are the lines that the model prints in a replay.
func steps(replay string) []string {
	var out []string
	for line := range strings.Lines(replay) {
		if _, step, ok := strings.Cut(line, "STEP "); ok {
			out = append(out, strings.TrimSpace(step))
		} else if strings.Contains(line, "START OF CYCLE") {
			out = append(out, "(from here on for ever)")
		}
	}
	return out
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}
