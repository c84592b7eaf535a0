// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/test/kit/history"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

// result is the outcome of a run.
type result struct {
	Took    time.Duration
	Groups  map[string]findings
	Verdict verdict
	Reason  string
}

// verdict is the outcome of a run.
type verdict string

// The verdicts.
const (
	passed verdict = "passed"
	failed verdict = "failed"
	void   verdict = "void" // the fault did not bite, or the testbed broke
)

// How long steps may take that are not part of the judgement.
const (
	seatTime    = 45 * time.Second
	recoverTime = 40 * time.Second
	healTime    = 100 * time.Second
	collectTime = 30 * time.Second
	tail        = time.Second // writes in flight arrive
)

// perform does one run. An error means that the testbed cannot be used again.
func perform(ctx context.Context, bed *testbed.Testbed, p plan) (r result, s *stage, all map[string]evidence, broken error) {
	began := time.Now()
	s = newStage(bed, p)
	all, err := s.play(ctx, &r)
	broken = s.cleanUp(ctx)
	r.Took = time.Since(began)
	if err != nil && !errors.Is(err, errMissed) {
		broken = errors.Join(err, broken)
	}
	return r, s, all, broken
}

// play does a run from its first candidate to its judgement. The error says why
// it is void, which excuses silence and nothing else.
func (s *stage) play(ctx context.Context, r *result) (all map[string]evidence, err error) {
	defer func() { r.excuse(err) }()
	store := etcd{s.bed.Cluster.EtcdURL(zones[0])}
	from, err := store.soon(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	var e evidence
	voided := s.suffer(ctx, &e)
	e.Over = time.Now()
	left := s.dismiss(ctx)
	all, unread := s.collect(ctx, store, from, e)
	voided = errors.Join(voided, unread)
	s.judge(r, all, left, voided)
	return all, voided
}

// suffer seats the candidates, injects the faults, and waits until all is well
// again. An error says why the run shows nothing.
func (s *stage) suffer(ctx context.Context, e *evidence) error {
	seating, cancel := context.WithTimeout(ctx, seatTime)
	defer cancel()
	if err := s.seatAll(seating); err != nil {
		return err
	}
	if err := s.each(func(g *group) error { return g.wrote(seating, time.Now()) }); err != nil {
		return err
	}
	if err := sleep.For(ctx, s.plan.Calm); err != nil {
		return err
	}
	e.Fault = time.Now()
	if err := s.injectFaults(ctx); err != nil {
		return err
	}
	e.Healed = time.Now()
	s.recover(ctx, e.Healed)
	return sleep.For(ctx, time.Until(e.Healed.Add(tail)))
}

// injectFaults injects the faults, waits, and undoes them.
func (s *stage) injectFaults(ctx context.Context) (err error) {
	type undoing struct {
		turn turn
		cure cure
	}
	var cures []undoing
	began := time.Now()
	for i, f := range s.plan.Faults {
		if i > 0 {
			err = sleep.For(ctx, s.plan.Apart)
		}
		if err != nil {
			break
		}
		var undo cure
		if undo, err = f.inject(ctx, s, s.plan.dice(f.name)); err != nil {
			err = fmt.Errorf("%s: %w", f.name, err)
		}
		if undo != nil {
			cures = append(cures, undoing{f.ends, undo})
		}
	}
	if err == nil {
		err = sleep.For(ctx, time.Until(began.Add(s.plan.Apart+s.plan.Lasts)))
	}
	slices.SortStableFunc(cures, func(a, b undoing) int { return int(a.turn - b.turn) })
	healing, cancel := context.WithTimeout(context.WithoutCancel(ctx), healTime)
	defer cancel()
	for _, c := range cures {
		if broken := c.cure(healing); broken != nil {
			// It wraps nothing, so that it is not mistaken for a fault that did not bite.
			return errors.New(fmt.Sprint("heal after ", s.plan.name(), ": ", broken, " (before: ", err, ")"))
		}
	}
	return errors.Join(err, s.restartCandidates(ctx))
}

// recover waits until all groups write again. The judge reports those that do
// not.
func (s *stage) recover(ctx context.Context, since time.Time) {
	ctx, cancel := context.WithTimeout(ctx, recoverTime+s.plan.Timing.LeaseDuration)
	defer cancel()
	_ = s.each(func(g *group) error {
		if !g.ours() && len(s.plan.Faults) > 1 {
			return nil // it may take minutes, and runs of one fault show it well enough
		}
		return g.wrote(ctx, since)
	})
}

// collect gathers the evidence of each group. It always returns what the
// candidates printed and how they ended; the error says that a register could
// not be read.
func (s *stage) collect(ctx context.Context, store etcd, from int64, e evidence) (map[string]evidence, error) {
	ctx, cancel := context.WithTimeout(ctx, collectTime)
	defer cancel()
	all := map[string]evidence{}
	var errs []error
	for _, g := range s.groups {
		register, err := s.readRegister(ctx, store, g, from)
		errs = append(errs, err)
		one := s.printed(g, e)
		one.Register, one.Unread = register, err != nil
		all[g.name] = one
	}
	return all, errors.Join(errs...)
}

// printed is what the candidates of a group printed and how they ended.
func (s *stage) printed(g *group, e evidence) evidence {
	e.Printed, e.Exits = history.Printed{}, map[string]exit{}
	for _, seat := range g.all() {
		now, printed := time.Now(), seat.Events()
		e.Printed[seat.Identity] = printed
		e.Terms = append(e.Terms, seat.terms(now, printed)...)
		e.Exits[seat.Identity] = seat.exit()
	}
	return e
}

// readRegister reads everything that a group's leaders have written. The deletion of the register marks
// the end.
func (s *stage) readRegister(ctx context.Context, store etcd, g *group, from int64) (history.Register, error) {
	end, err := store.soon(ctx)
	if err != nil {
		return nil, err
	}
	err = s.ask(ctx, func(ctx context.Context, c kubernetes.Interface) error {
		err := c.CoreV1().ConfigMaps(s.namespace).Delete(ctx, g.register(), metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil // the answer of the last attempt was lost, or nobody ever wrote
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("mark the end of %s: %w", g.register(), err)
	}
	return store.history(ctx, s.namespace, g.register(), from, end+1)
}

// judge fills in the result. A void run proves nothing about silence. If its
// testbed broke, it also does not prove how the candidates ended that could not
// reach it. Everything else counts.
func (s *stage) judge(r *result, all map[string]evidence, left, voided error) {
	r.Groups, r.Verdict = map[string]findings{}, passed
	var wrong []string
	for _, g := range s.groups {
		one := judge(all[g.name])
		r.Groups[g.name] = one
		if !g.ours() {
			continue
		}
		found := one.unsafe()
		if voided == nil && one.Silent {
			found = append(found, "nobody led when all was well again")
		}
		for _, x := range found {
			wrong = append(wrong, g.name+": "+x)
		}
	}
	if left != nil && (voided == nil || errors.Is(voided, errMissed)) {
		wrong = append(wrong, left.Error())
	}
	if len(wrong) > 0 {
		r.Verdict, r.Reason = failed, strings.Join(wrong, "; ")
	}
}

// excuse makes a run void, unless the findings count in a void run, too.
func (r *result) excuse(voided error) {
	switch {
	case voided == nil:
	case r.Verdict == failed:
		r.Reason += "; void besides: " + voided.Error()
	default:
		r.Verdict, r.Reason = void, voided.Error()
	}
}

// cleanUp kills the candidates and removes what the run has left, in any case.
func (s *stage) cleanUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recoverTime)
	defer cancel()
	for _, g := range s.groups {
		for _, one := range g.all() {
			if one.alive() {
				if err := one.kill(ctx); err != nil {
					return err
				}
			}
		}
	}
	return s.clear(ctx)
}
