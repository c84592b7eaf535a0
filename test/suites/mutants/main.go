// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command mutants breaks the safety rules of docs/design*.md one at a time, and
// requires that the test named for each breakage finds it. The files of the
// repository stay as they are.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"sync"
	"text/tabwriter"
	"time"
)

func main() {
	var r runner
	flag.StringVar(&r.root, "root", ".", "the repository")
	flag.DurationVar(&r.timeout, "timeout", 2*time.Minute, "for one test")
	parallel := flag.Int("parallel", runtime.NumCPU(), "tests at a time")
	by := flag.String("by", "", "directory/TestName: judges all mutants instead of their own tests")
	only := flag.String("run", "", "regular expression: only mutants whose rule, sentence or file matches")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := check(ctx, r, *only, *by, *parallel); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// check runs the mutants and prints a row for each. It returns an error unless
// all are killed.
func check(ctx context.Context, r runner, only, by string, parallel int) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	var chosen []mutant
	for _, m := range mutants {
		if pattern.MatchString(m.rule) || pattern.MatchString(m.broken) || pattern.MatchString(m.file) {
			m.by = cmp.Or(by, m.by)
			chosen = append(chosen, m)
		}
	}
	start := time.Now()
	if err := r.unbroken(ctx, chosen); err != nil {
		return err
	}
	results := make([]result, len(chosen))
	next := make(chan int)
	var workers sync.WaitGroup
	for range max(1, parallel) {
		workers.Go(func() {
			for i := range next {
				results[i] = r.breakage(ctx, chosen[i])
				fmt.Fprintf(os.Stderr, "%s: %s: %s\n", chosen[i].rule, chosen[i].broken, results[i].verdict)
			}
		})
	}
	for i := range chosen {
		next <- i
	}
	close(next)
	workers.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	left := 0
	for i, result := range results {
		if result.verdict != killed {
			left++
			fmt.Fprintf(os.Stderr, "\n%s: %s: %s\n%s", chosen[i].rule, chosen[i].broken, result.verdict, result.said)
		}
	}
	if err := table(os.Stdout, chosen, results); err != nil {
		return err
	}
	fmt.Printf("\n%d mutants, %d killed, in %v\n", len(chosen), len(chosen)-left, time.Since(start).Round(time.Second))
	if left > 0 {
		return fmt.Errorf("%d of %d mutants were not killed by their tests", left, len(chosen))
	}
	return nil
}

func table(to io.Writer, all []mutant, results []result) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RULE\tWHAT IS BROKEN\tFILE\tRESULT\tTEST\tTIME")
	for i, m := range all {
		_, test := m.test()
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%.1fs\n", m.rule, m.broken, m.file, results[i].verdict, test, results[i].took.Seconds())
	}
	return w.Flush()
}
