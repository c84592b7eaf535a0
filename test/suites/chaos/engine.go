// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// runsPerBed is how many runs share a testbed: replacing it now and then keeps
// its memory and its disk small.
const runsPerBed = 40

// engine does the runs, on one testbed or on several at a time.
type engine struct {
	options
	rounds [][]fault
	commit string

	mu       sync.Mutex // guards what follows, and the ledger
	done     []result
	failures int
}

// place is a testbed on which runs are done one after another.
type place struct {
	*engine
	bed  *testbed.Testbed
	used int // runs on it so far
}

// following returns the plans from an index on, up to their number.
func (e *engine) following(next int) iter.Seq[plan] {
	last := -1
	switch {
	case e.onlyRun >= 0:
		next, last = e.onlyRun, e.onlyRun
	case e.runs > 0:
		last = next + e.runs - 1
	}
	return func(yield func(plan) bool) {
		for ; last < 0 || next <= last; next++ {
			p := newPlan(e.seed, next, e.rounds)
			if !yield(p) {
				return
			}
		}
	}
}

// all does runs until the time is over. It returns the completed runs, also if
// it fails.
func (e *engine) all(ctx context.Context, plans iter.Seq[plan]) (done []result, err error) {
	if e.commit, err = commit(ctx); err != nil {
		return nil, err
	}
	ending := ctx
	if e.minutes > 0 {
		// No run begins after that; a run that has begun is completed.
		var cancel context.CancelFunc
		ending, cancel = context.WithTimeout(ctx, time.Duration(e.minutes*float64(time.Minute)))
		defer cancel()
	}
	next, stop := iter.Pull(plans)
	defer stop()
	all, broken := errgroup.WithContext(ending)
	for range max(1, e.beds) {
		all.Go(func() error { return e.work(ctx, broken, next) })
	}
	err = all.Wait()
	if e.failures > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d runs failed", e.failures, len(e.done)))
	}
	return e.done, err
}

// work does runs on a testbed until there are no more, or no more may begin.
func (e *engine) work(ctx, mayBegin context.Context, next func() (plan, bool)) (err error) {
	p := &place{engine: e}
	defer func() { err = errors.Join(err, p.leave()) }()
	for mayBegin.Err() == nil {
		e.mu.Lock()
		what, more := next()
		e.mu.Unlock()
		if !more {
			return nil
		}
		r, err := p.one(ctx, what)
		if ctx.Err() != nil {
			return nil // an interrupted run says nothing
		}
		if err != nil {
			return err
		}
		if err := e.note(r); err != nil {
			return err
		}
	}
	return nil
}

// note adds a result.
func (e *engine) note(r result) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.done = append(e.done, r)
	if r.Verdict == failed {
		e.failures++
	}
	return e.ledger.add(r)
}

// one does a run, on a bed that is healthy.
func (e *place) one(ctx context.Context, p plan) (result, error) {
	if err := e.settle(ctx); err != nil {
		return result{}, err
	}
	e.used++
	r, s, all, broken := perform(ctx, e.bed, p)
	r.Commit = e.commit
	if ctx.Err() != nil {
		return r, nil // it was interrupted
	}
	fmt.Printf("%4d  %-6s  %5.1fs  %s  %s%s\n", r.Run, r.Verdict, r.Took.Seconds(), r.Timing, r.Faults, because(r))
	if r.Verdict != passed || e.keep {
		if err := e.save(s, r, all); err != nil {
			return r, err
		}
	}
	if broken != nil {
		return r, e.leave()
	}
	return r, nil
}

func because(r result) string {
	if r.Reason == "" {
		return ""
	}
	return "\n      " + r.Reason
}

// settle makes sure that there is a healthy testbed.
func (e *place) settle(ctx context.Context) error {
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
	e.bed, err = testbed.Start(ctx, testbed.Config{Zones: zones, Network: e.network, SyncToDisk: true, Progress: io.Discard})
	e.used = 0
	return err
}

// leave closes the testbed.
func (e *place) leave() error {
	if e.bed == nil {
		return nil
	}
	err := e.bed.Close()
	e.bed = nil
	return err
}

// save keeps the evidence of a run under build/chaos, and says how to repeat
// the run.
func (e *engine) save(s *stage, r result, all map[string]evidence) error {
	root, err := testbed.Root()
	if err != nil {
		return err
	}
	dir := filepath.Join(root, "build", "chaos", fmt.Sprintf("%d-%d", r.Seed, r.Run))
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("keep the logs of run %d: %w", r.Run, err)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("keep the logs of run %d: %w", r.Run, err)
	}
	for _, g := range s.groups {
		for _, one := range g.all() {
			data, err := os.ReadFile(one.Log())
			for _, line := range one.Output() {
				data = append(data, line.Text+"\n"...)
			}
			if err := errors.Join(err, os.WriteFile(filepath.Join(dir, one.Identity+".log"), data, 0o600)); err != nil {
				return fmt.Errorf("keep the logs of run %d: %w", r.Run, err)
			}
		}
	}
	if err := writeJSON(filepath.Join(dir, "evidence.json"), all); err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(dir, "result.json"), r); err != nil {
		return err
	}
	again := fmt.Sprintf("--only-run %d --faults %s", r.Run, r.Faults)
	if e.unguarded {
		again = "--unguarded"
	}
	fmt.Printf("      kept in build/chaos/%d-%d; again: cd test && go run ./suites/chaos --seed %[1]d %[3]s\n", r.Seed, r.Run, again)
	return nil
}

// commit is the commit that is checked out, marked if there are changes.
func commit(ctx context.Context) (string, error) {
	name, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude", "*").Output()
	if err != nil {
		return "", fmt.Errorf("find the commit: %w", err)
	}
	return strings.TrimSpace(string(name)), nil
}
