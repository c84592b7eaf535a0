// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// plan is what to measure.
type plan struct {
	kinds      []string
	locks      []int // populations for what an idle fleet costs and for SIGTERM
	crashes    []int // populations for kill -9 and the loss of a zone
	candidates []int // for one lock
	ownMost    int   // the largest population of elections that share nothing
	span       time.Duration
}

// scale measures what many elections in few processes cost, and how soon another process leads,
// in three zones. It prints tables with ratios, and what got worse since the baseline.
func scale(ctx context.Context, args []string) error {
	root, err := testbed.Root()
	if err != nil {
		return err
	}
	f := flag.NewFlagSet("scale", flag.ContinueOnError)
	locks := f.String("locks", "1,10,50", "how many locks a process campaigns for")
	crashes := f.String("crashes", "50", "the same, when the leaders' process is killed or its zone lost")
	candidates := f.String("candidates", "30", "how many candidates one lock has, in three processes")
	kinds := f.String("kinds", "own,shared,heartbeat,client-go", "ways to campaign")
	ownMost := f.Int("own-most", 10, "the largest population of elections that share nothing: each keeps connections and watches of its own")
	span := f.Duration("span", 10*time.Second, "how long to measure what goes on")
	update := f.Bool("update", false, "make what was measured the baseline of these populations")
	show := f.Bool("show", false, "measure nothing, and print the tables of the baseline")
	baseline := f.String("baseline", filepath.Join(root, "test", "suites", "bench", "baseline.json"), "file of the baseline")
	into := f.String("into", filepath.Join(root, "build", "scale"), "directory for the results: scale.json, scale.md")
	if err := f.Parse(args); err != nil {
		return err
	}
	p := plan{kinds: strings.Split(*kinds, ","), ownMost: *ownMost, span: *span}
	var errs [3]error
	p.locks, errs[0] = numbers(*locks)
	p.crashes, errs[1] = numbers(*crashes)
	p.candidates, errs[2] = numbers(*candidates)
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	before, err := load(*baseline)
	if err != nil {
		return err
	}
	if *show {
		before.print(os.Stdout)
		return nil
	}
	r, err := measure(ctx, p)
	if err := errors.Join(err, r.save(filepath.Join(*into, "scale.json")), r.write(filepath.Join(*into, "scale.md"))); err != nil {
		return err
	}
	r.print(os.Stdout)
	compare(os.Stdout, before, r)
	if *update {
		return r.over(before).save(*baseline)
	}
	return nil
}

// numbers parses numbers with commas between them.
func numbers(text string) (all []int, err error) {
	for field := range strings.SplitSeq(text, ",") {
		if field == "" {
			continue
		}
		n, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("%q is not a list of numbers: %w", text, err)
		}
		all = append(all, n)
	}
	return all, nil
}

// measure carries the plan out. It returns what was measured even after an error.
func measure(ctx context.Context, p plan) (*Results, error) {
	r, began, on := &Results{}, time.Now(), machine()
	if err := trial.Build(ctx, trial.Many); err != nil {
		return r, err
	}
	bed, err := testbed.Start(ctx, testbed.Config{WithoutControllers: true, WithoutNodes: true, Progress: os.Stderr})
	if err != nil {
		return r, err
	}
	defer bed.Close()
	defer func() { r.Runs = []string{describe(bed, on, began)} }()
	s := &stage{Testbed: bed, plan: p}
	if err := s.quiet(ctx); err != nil {
		return r, err
	}
	for _, n := range p.locks {
		for _, kind := range p.kinds {
			if kind == "own" && n > p.ownMost {
				continue
			}
			if err := s.population(ctx, r, kind, n); err != nil {
				return r, fmt.Errorf("%s, %d locks: %w", kind, n, err)
			}
		}
	}
	for _, n := range p.candidates {
		for _, kind := range []string{"own", outside, "client-go"} {
			if err := s.crowd(ctx, r, kind, n); err != nil {
				return r, fmt.Errorf("%s, %d candidates: %w", kind, n, err)
			}
		}
	}
	return r, nil
}
