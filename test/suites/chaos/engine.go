// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/zonelect/zonelect/test/kit/durations"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// runsPerBed is how many runs share a testbed: replacing it now and then keeps
// its memory and its disk small.
const runsPerBed = 40

// engine does the runs, one after another.
type engine struct {
	options
	rounds   [][]fault
	verdicts map[verdict]int
	bed      *testbed.Testbed
	used     int // runs on it so far
}

// all does runs until the time is over. No run begins after that; one that has
// begun is completed.
func (e *engine) all(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, e.leave()) }()
	began := time.Now()
	for i := max(0, e.onlyRun); ctx.Err() == nil; i++ {
		if e.minutes > 0 && time.Since(began).Minutes() >= e.minutes || e.onlyRun >= 0 && i > e.onlyRun {
			break
		}
		if err := e.one(ctx, newPlan(e.seed, i, e.rounds)); err != nil {
			return err
		}
	}
	fmt.Printf("%d runs passed, %d failed, %d were void.\n", e.verdicts[passed], e.verdicts[failed], e.verdicts[void])
	if n := e.verdicts[failed]; n > 0 {
		return fmt.Errorf("%d runs failed", n)
	}
	return nil
}

// one does a run, on a bed that is healthy.
func (e *engine) one(ctx context.Context, p plan) error {
	if err := e.settle(ctx); err != nil {
		return err
	}
	e.used++
	r, s, all, broken := perform(ctx, e.bed, p)
	if ctx.Err() != nil {
		return nil // an interrupted run says nothing
	}
	e.verdicts[r.Verdict]++
	t := p.Timing
	fmt.Printf("%4d  %-6s  %5.1fs  %v/%v/%v  %s\n",
		p.Index, r.Verdict, r.Took.Seconds(), t.LeaseDuration, t.RenewDeadline, t.RenewInterval, p.name())
	if r.Reason != "" {
		fmt.Println("      " + r.Reason)
	}
	if r.Verdict != passed {
		if err := save(s, r, all); err != nil {
			return err
		}
	}
	if broken != nil {
		return e.leave()
	}
	return r.record(p)
}

// record notes for how long nobody led, with client-go's time of the same run
// beside it.
func (r result) record(p plan) error {
	if r.Verdict == void {
		return nil
	}
	theirs := r.Groups[clientGo].Gap
	var errs []error
	for name, g := range r.Groups {
		if name != clientGo {
			errs = append(errs, durations.Beside("chaos/"+p.name(), "nobody leads on "+name, g.Gap, theirs))
		}
	}
	return errors.Join(errs...)
}

// settle makes sure that there is a healthy testbed.
func (e *engine) settle(ctx context.Context) error {
	if e.used >= runsPerBed {
		if err := e.leave(); err != nil {
			return err
		}
	}
	if e.bed != nil {
		return nil
	}
	fmt.Println("Starting a control plane in three zones (the first build takes minutes).")
	// It builds now, so that no run waits for it.
	if err := trial.Build(ctx, trial.Zonelect, trial.ClientGo); err != nil {
		return err
	}
	var err error
	e.bed, err = testbed.Start(ctx, testbed.Config{Zones: zones, Network: testbed.Namespaces, Progress: io.Discard})
	e.used = 0
	return err
}

// leave closes the testbed.
func (e *engine) leave() error {
	if e.bed == nil {
		return nil
	}
	err := e.bed.Close()
	e.bed = nil
	return err
}

// save keeps the evidence of a run under build/chaos, and says how to repeat
// the run.
func save(s *stage, r result, all map[string]evidence) error {
	root, err := testbed.Root()
	if err != nil {
		return err
	}
	dir := filepath.Join(root, "build", "chaos", fmt.Sprintf("%d-%d", s.plan.Seed, s.plan.Index))
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o750)); err != nil {
		return fmt.Errorf("keep what a run was: %w", err)
	}
	var errs []error
	write := func(name string, text []byte, err error) {
		errs = append(errs, err, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	for _, g := range s.groups {
		for _, one := range g.all() {
			log, err := os.ReadFile(one.Log())
			for _, line := range one.Output() {
				log = append(log, line+"\n"...)
			}
			write(one.Identity+".log", log, err)
		}
	}
	text, err := json.MarshalIndent(map[string]any{"Result": r, "Evidence": all}, "", " ")
	write("run.json", text, err)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("keep what a run was: %w", err)
	}
	fmt.Printf("      kept in build/chaos/%d-%d; again: cd test && go run ./suites/chaos --seed %[1]d --only-run %[2]d --faults %[3]s\n",
		s.plan.Seed, s.plan.Index, s.plan.name())
	return nil
}
