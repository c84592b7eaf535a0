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

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/test/kit/history"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// result is a run's line in the ledger.
type result struct {
	Time    time.Time         `json:"time"`
	Commit  string            `json:"commit"`
	Seed    uint64            `json:"seed"`
	Run     int               `json:"run"`
	Faults  string            `json:"faults"`
	Timing  string            `json:"timing"`
	Again   bool              `json:"again,omitempty"` // it is a repetition of a run that failed
	Network string            `json:"network"`
	Lasted  metav1.Duration   `json:"lasted"`
	Took    metav1.Duration   `json:"took"`
	Spent   spent             `json:"spent,omitzero"`
	Groups  map[string]record `json:"groups,omitempty"`
	Verdict verdict           `json:"verdict"`
	Reason  string            `json:"reason,omitempty"`
}

// spent says where a run's time went: seating the candidates, the faults until
// all was well, until everybody wrote again, and ending and judging it.
type spent struct {
	Seating metav1.Duration `json:"seating"`
	Faults  metav1.Duration `json:"faults"`
	Recover metav1.Duration `json:"recover"`
	Ending  metav1.Duration `json:"ending"`
}

// since adds the time since began to in, and returns the present time.
func since(began time.Time, in *metav1.Duration) time.Time {
	now := time.Now()
	in.Duration += now.Sub(began).Round(time.Millisecond)
	return now
}

// record is the outcome of one group.
type record struct {
	findings
	// Bound is the promise for Gap; it is zero for client-go, which has none.
	Bound metav1.Duration `json:"bound,omitzero"`
}

// verdict is the outcome of a run.
type verdict string

// The verdicts.
const (
	passed verdict = "passed"
	failed verdict = "failed"
	void   verdict = "void" // the fault did not bite, or the testbed broke: gaps prove nothing
)

// How long steps may take that are not part of the judgement.
const (
	seatTime    = 45 * time.Second
	recoverTime = 40 * time.Second
	healTime    = 100 * time.Second
	tail        = time.Second // writes in flight arrive
)

// perform does one run. An error means that the testbed cannot be used again.
func perform(ctx context.Context, bed *testbed.Testbed, p plan) (result, *stage, map[string]evidence, error) {
	r := result{Seed: p.Seed, Run: p.Index, Faults: p.name(), Timing: p.timing(), Again: p.Again, Network: bed.Network.Kind().String(), Time: time.Now().UTC().Truncate(time.Second)}
	began := time.Now()
	s := newStage(bed, p)
	all, err := s.play(ctx, &r)
	ended := time.Now()
	broken := s.cleanUp(ctx)
	since(ended, &r.Spent.Ending)
	since(began, &r.Took)
	if err != nil && !errors.Is(err, errMissed) {
		broken = errors.Join(err, broken)
	}
	return r, s, all, broken
}

// play does a run from its first candidate to its judgement. The error says why
// it is void, which excuses gaps and nothing else.
func (s *stage) play(ctx context.Context, r *result) (all map[string]evidence, err error) {
	defer func() { r.excuse(err) }()
	began := time.Now()
	store := etcd{s.bed.Cluster.EtcdURL(zones[0])}
	from, err := store.soon(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	var e evidence
	since(began, &r.Spent.Seating)
	voided := s.suffer(ctx, r, &e)
	e.Over = time.Now()
	defer func() { since(e.Over, &r.Spent.Ending) }()
	left := s.dismiss(ctx)
	e.Ended = left == nil && voided == nil
	all, unread := s.collect(ctx, store, from, e)
	voided = errors.Join(voided, unread)
	s.judge(r, all, left, voided)
	return all, voided
}

// suffer seats the candidates, injects the faults, and waits until all is well
// again. An error says why the run shows nothing.
func (s *stage) suffer(ctx context.Context, r *result, e *evidence) error {
	began := time.Now()
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
	e.Fault = since(began, &r.Spent.Seating)
	lasted, err := s.injectFaults(ctx, e)
	r.Lasted.Duration = lasted.Round(time.Millisecond)
	if err != nil {
		return err
	}
	e.Healed = since(e.Fault, &r.Spent.Faults)
	defer func() { since(e.Healed, &r.Spent.Recover) }()
	s.recover(ctx, e.Healed)
	return sleep.For(ctx, time.Until(e.Healed.Add(tail)))
}

// injectFaults injects the faults, waits, and undoes them. It returns how long they
// lasted.
func (s *stage) injectFaults(ctx context.Context, e *evidence) (lasted time.Duration, err error) {
	began := time.Now()
	type undoing struct {
		turn turn
		cure cure
	}
	var cures []undoing
	for i, f := range s.plan.Faults {
		if i > 0 && err == nil {
			err = sleep.For(ctx, s.plan.Apart)
		}
		if err != nil {
			break
		}
		var undo cure
		leads := s.etcdLeads(ctx, f)
		b := bite{Fault: f.name, Began: time.Now()}
		undo, err = f.inject(ctx, s, s.plan.dice(f.name))
		b.Bit, b.Elects = time.Now(), s.tookZone(leads)
		e.Bites = append(e.Bites, b)
		if err != nil {
			err = fmt.Errorf("%s: %w", f.name, err)
		}
		if undo != nil {
			cures = append(cures, undoing{f.ends, undo})
		}
	}
	if err == nil {
		err = s.shown(ctx, e.Bites, began.Add(s.plan.Apart+s.plan.Lasts))
	}
	e.Mending = time.Now()
	slices.SortStableFunc(cures, func(a, b undoing) int { return int(a.turn - b.turn) })
	healing, cancel := context.WithTimeout(context.WithoutCancel(ctx), healTime)
	defer cancel()
	for _, c := range cures {
		if broken := c.cure(healing); broken != nil {
			return time.Since(began), unhealed(fmt.Sprintf("heal after %s: %v (before: %v)", s.plan.name(), broken, err))
		}
	}
	lasted = time.Since(began)
	return lasted, errors.Join(err, s.restartCandidates(ctx))
}

// shown waits until a time, or until the faults have shown all that they can.
// With faults that are meant to end a term, that is when each group of
// zonelect's has another leader, plus the time that the plan has beyond the
// worst case.
func (s *stage) shown(ctx context.Context, bites []bite, until time.Time) error {
	ending := time.Time{}
	for i, f := range s.plan.Faults {
		if !f.early {
			return sleep.For(ctx, time.Until(until))
		}
		if f.promiseIn(s.plan)(s.plan.Timing, 0).lease {
			ending = bites[i].Bit
		}
	}
	if ending.IsZero() {
		return sleep.For(ctx, time.Until(until))
	}
	longest := worst(s.plan.longest())
	for time.Now().Before(until) {
		if s.ledSince(ending) {
			return sleep.For(ctx, min(time.Until(until), max(0, s.plan.Lasts-longest)))
		}
		if err := sleep.For(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// ledSince reports whether a term has begun in each group of zonelect's after a
// time.
func (s *stage) ledSince(begin time.Time) bool {
	for _, g := range s.groups {
		var seats []*trial.Seat
		for _, one := range g.all() {
			seats = append(seats, one.Seat)
		}
		if led := trial.First(seats, begin, "leading"); g.ours() && len(led) == 0 {
			return false
		}
	}
	return true
}

// etcdLeads is the zone of etcd's leader, if a fault may take that zone; empty if
// it is not known.
func (s *stage) etcdLeads(ctx context.Context, f fault) string {
	s.mu.Lock()
	s.took = nil
	s.mu.Unlock()
	if f.costs&ofMember == 0 {
		return ""
	}
	asking, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	zone, err := s.bed.Parts.EtcdLeader(asking)
	if err != nil {
		return "" // it has none
	}
	return zone
}

// take notes that a fault takes a zone.
func (s *stage) take(zone string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = append(s.took, zone)
}

// tookZone reports whether the last fault took a zone.
func (s *stage) tookZone(zone string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.took, zone)
}

// unhealed says that the testbed cannot be used again. It wraps nothing, so that
// it is not mistaken for a fault that did not bite.
type unhealed string

func (u unhealed) Error() string { return string(u) }

// recover waits until all groups write again. The judge reports those that do
// not.
func (s *stage) recover(ctx context.Context, since time.Time) {
	ctx, cancel := context.WithTimeout(ctx, recoverTime+s.plan.longest().LeaseDuration)
	defer cancel()
	_ = s.each(func(g *group) error {
		if !g.ours() && len(s.plan.Faults) > 1 {
			return nil // it may take minutes, and runs of one fault show it well enough
		}
		_ = g.wrote(ctx, since)
		return nil
	})
}

// collectTime bounds how long the evidence of a run is gathered.
const collectTime = 30 * time.Second

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
	e.Printed, e.Terms, e.Exits = history.Printed{}, history.History{}, map[string]exit{}
	e.Peers, e.Timings = map[string]bool{}, map[string]election.Timing{}
	e.Hands = slices.ContainsFunc(s.plan.Faults, func(f fault) bool { return f.hands })
	for _, seat := range g.all() {
		now, printed := time.Now(), seat.Events()
		e.Printed[seat.Identity] = printed
		e.Terms = append(e.Terms, seat.terms(now, printed)...)
		e.Exits[seat.Identity], e.Timings[seat.Identity] = seat.exit(), seat.timing
		if g.ours() && seat.Kind == trial.ClientGo {
			e.Peers[seat.Identity] = true
		}
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

// mostLeft is how many goroutines may be left when a candidate ends: those of
// the runtime, of signals, and of connections that others keep.
const mostLeft = 8

// judge fills in the result. A void run proves no gap. If its testbed broke, it
// also proves neither how often leaders changed nor how the candidates ended
// that could not reach it. Everything else counts.
func (s *stage) judge(r *result, all map[string]evidence, left, voided error) {
	r.Groups, r.Verdict = map[string]record{}, passed
	bedBroken := voided != nil && !errors.Is(voided, errMissed)
	var wrong []string
	for _, g := range s.groups {
		e := all[g.name]
		one := record{findings: judge(e)}
		if e.Healed.IsZero() { // the run is void: its faults count until its end
			e.Healed = e.Over
		}
		one.Gap.Duration = one.Gap.Round(time.Millisecond)
		if g.ours() {
			c := course{s.plan, g.name, e.Bites, e.Timings, answered(s.plan, e, all), e.Healed, acks(all)}
			found := one.unsafe()
			if voided == nil && one.Silent {
				found = append(found, "nobody led when all was well again")
			}
			if voided == nil && g.peer == "" { // nothing is promised for client-go's
				found = append(found, one.late(c.limit)...)
			}
			if !bedBroken && g.peer == "" {
				found = append(found, one.restless(c.changes())...)
			}
			for _, x := range found {
				wrong = append(wrong, g.name+": "+x)
			}
		}
		r.Groups[g.name] = one
	}
	if left != nil && !bedBroken {
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

// unsafe says what must not happen in any run.
func (g record) unsafe() (wrong []string) {
	if g.Overlaps > 0 {
		wrong = append(wrong, fmt.Sprintf("%d overlaps", g.Overlaps))
	}
	if g.Lost > 0 {
		wrong = append(wrong, fmt.Sprintf("%d lost writes", g.Lost))
	}
	if g.Exits > 0 {
		wrong = append(wrong, fmt.Sprintf("%d candidates ended as nobody told them to", g.Exits))
	}
	if g.Left > mostLeft {
		wrong = append(wrong, fmt.Sprintf("%d goroutines were left", g.Left))
	}
	return wrong
}

// late says what took longer than promised, and notes the promise for the
// longest gap.
func (g *record) late(limit func(gap) time.Duration) (wrong []string) {
	for _, one := range g.gaps {
		most, length := limit(one).Round(time.Millisecond), one.length().Round(time.Millisecond)
		if length == g.Gap.Duration {
			g.Bound.Duration = most
		}
		if length > most {
			wrong = append(wrong, fmt.Sprintf("a gap of %v, promised are %v", length, most))
		}
	}
	return wrong
}

// restless says what changed more often than promised.
func (g *record) restless(most int) (wrong []string) {
	if g.Changes > most {
		wrong = append(wrong, fmt.Sprintf("the leader changed %d times, promised are %d", g.Changes, most))
	}
	return wrong
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
