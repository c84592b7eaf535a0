// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/history"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// group is the candidates for one lock, one in each zone. Its name is that of
// the lock and of the user whose rights they have; what they write is named
// REGISTER.
type group struct {
	name string
	kind trial.Kind
	// roles are the directories under config/operator whose rights its user has.
	roles []string
	// args are additional flags of its candidates.
	args []string

	stage *stage
	mu    sync.Mutex
	seats []*seat // in the order of their start
}

// The groups of a run.
const (
	onLease  = "lease"     // zonelect, mode lease
	onShield = "shield"    // zonelect, mode dual, beside a leader-for-life ConfigMap
	clientGo = "client-go" // its elector, on a Lease of its own
)

// newGroups are the groups of a run, still without candidates.
func newGroups(s *stage) []*group {
	return []*group{
		{stage: s, name: onLease, kind: trial.Zonelect, roles: []string{"lease", "pod"}},
		{
			stage: s, name: onShield, kind: trial.Zonelect, roles: []string{"lease", "pod", "leader-for-life"},
			args: []string{"--mode", "dual", "--selector", "group=" + onShield},
		},
		{stage: s, name: clientGo, kind: trial.ClientGo, roles: []string{"lease"}},
	}
}

// register is the name of the ConfigMap that the group's leader writes.
func (g *group) register() string { return g.name + "-register" }

// ours reports whether its candidates are zonelect's.
func (g *group) ours() bool { return g.kind == trial.Zonelect }

// seat is one candidate: a process. Its replacement is another seat.
type seat struct {
	*trial.Seat
	mu     sync.Mutex
	told   bool      // it was asked to exit
	ended  time.Time // when it was killed; zero while it was not
	pauses []pause
}

// pause is a time in which a process was stopped.
type pause struct{ from, to time.Time }

// start starts a candidate in a zone.
func (g *group) start(ctx context.Context, zone string) (*seat, error) {
	s := g.stage
	g.mu.Lock()
	n, t := len(g.seats), s.plan.Timing
	g.mu.Unlock()
	identity := fmt.Sprintf("%s-%s-%s-%d", s.namespace, g.name, zone, n)
	args := []string{
		"--kubeconfig", s.kubeconfig(g, zone), "--namespace", s.namespace, "--register", g.register(),
		"--lease-duration", t.LeaseDuration.String(), "--renew-deadline", t.RenewDeadline.String(), "--renew-interval", t.RenewInterval.String(),
	}
	if pod := s.pod(g, zone); pod != nil {
		args = append(args, "--register-report", "--pod-name", pod.Name, "--pod-uid", string(pod.UID), "--node-name", pod.Spec.NodeName)
	}
	process, err := trial.Start(ctx, s.bed, g.kind, zone, g.name, identity, append(args, g.args...)...)
	if err != nil {
		return nil, err
	}
	one := &seat{Seat: process}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seats = append(g.seats, one)
	return one, nil
}

// all returns every candidate that there has been.
func (g *group) all() []*seat {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.seats)
}

// seat is the last candidate of a zone.
func (g *group) seat(zone string) *seat {
	var last *seat
	for _, one := range g.all() {
		if one.Zone == zone {
			last = one
		}
	}
	return last
}

// leader is the candidate that began to lead last. Its term may be over, as long as nobody else leads
// and it lives.
func (g *group) leader() (*seat, error) {
	var leader *seat
	var since time.Time
	for _, one := range g.all() {
		for _, e := range one.Events() {
			if e.Event == "leading" && e.Time.After(since) {
				leader, since = one, e.Time
			}
		}
	}
	if leader == nil || !leader.alive() {
		return nil, fmt.Errorf("%w: nobody leads among %s", errMissed, g.name)
	}
	return leader, nil
}

// awaitLeader waits until another candidate leads, if the leader is dead.
func (g *group) awaitLeader(ctx context.Context) (*seat, error) {
	for began := time.Now(); ; {
		leader, err := g.leader()
		if err == nil || time.Since(began) > worst(g.stage.plan.Timing) {
			return leader, err
		}
		if err := sleep.For(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// followers are the live candidates that do not lead, in the order of their
// zones.
func (g *group) followers() (all []*seat) {
	leader, _ := g.leader()
	for _, zone := range zones {
		if one := g.seat(zone); one != leader && one.alive() {
			all = append(all, one)
		}
	}
	return all
}

// wrote waits until a write of the group is acknowledged that was sent at or
// after since.
func (g *group) wrote(ctx context.Context, since time.Time) error {
	for {
		for _, one := range g.all() {
			if slices.ContainsFunc(one.Events(), func(e events.Event) bool { return e.Acknowledged() && !e.Sent.Before(since) }) {
				return nil
			}
		}
		if err := sleep.For(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("wait until somebody of %s writes: %w", g.name, err)
		}
	}
}

// alive reports whether the process runs or is stopped.
func (s *seat) alive() bool {
	select {
	case <-s.Done():
		return false
	default:
		return true
	}
}

// end notes that the process was ended, no earlier than at.
func (s *seat) end(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended.IsZero() {
		s.ended = at
	}
}

// terminate asks the process to exit, if it runs. It waits until the process
// has started: before it handles the signal, the signal would just kill it.
func (s *seat) terminate(ctx context.Context) error {
	starting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, _ = s.Await(starting, "started", time.Time{})
	if !s.alive() {
		return fmt.Errorf("%w: %s has ended by itself", errMissed, s.Identity)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = true
	return s.Terminate()
}

// panicked finds the line in which Go's runtime says why it ends a program.
var panicked = regexp.MustCompile(`(?m)^(panic: |fatal error: |unexpected fault address |WARNING: DATA RACE).*$`)

// exit returns how the process ended, and what its log says about that.
func (s *seat) exit() exit {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := exit{Running: s.alive(), Told: s.told, Killed: !s.ended.IsZero()}
	x.Started = slices.ContainsFunc(s.Events(), func(e events.Event) bool { return e.Event == "started" })
	if !x.Running {
		if err := s.Wait(context.Background()); err != nil {
			x.Status = err.Error()
		}
	}
	if log, err := os.ReadFile(s.Log()); err == nil {
		x.Panic = string(panicked.Find(log))
	}
	return x
}

// kill kills the process, and returns once it is gone.
func (s *seat) kill(ctx context.Context) error {
	if !s.alive() {
		return fmt.Errorf("%w: %s has ended by itself", errMissed, s.Identity)
	}
	s.end(time.Now())
	if err := s.Kill(); err != nil {
		return err
	}
	if err := s.Wait(ctx); err == nil || errors.Is(err, ctx.Err()) {
		return fmt.Errorf("%w: %s was killed and ended with %w", errMissed, s.Identity, err)
	}
	return nil
}

// terms are the times in which the process led, by what it printed of one lock. While it was stopped it did
// nothing. The register shows what it did when it went on: its work may take a
// moment to notice that its term is over.
func (s *seat) terms(now time.Time, printed []events.Event) history.History {
	s.mu.Lock()
	defer s.mu.Unlock()
	program := history.Span{Pod: s.Identity, End: now, Open: true}
	if !s.ended.IsZero() {
		program.End, program.Open = s.ended, false
	}
	return without(history.TermsOf(program, printed), s.pauses)
}

// waking is how long a resumed process may take to stop its work.
const waking = 500 * time.Millisecond

// without cuts pauses out of terms.
func without(terms history.History, pauses []pause) (all history.History) {
	for _, term := range terms {
		for _, p := range pauses {
			if p.from.Before(term.Start) || !p.from.Before(term.End) {
				continue
			}
			before := term
			before.End, before.Open = p.from, false
			all = append(all, before)
			if term.Start = p.to.Add(waking); p.to.IsZero() {
				term.Start = term.End
			}
		}
		if term.Start.Before(term.End) {
			all = append(all, term)
		}
	}
	return all
}

// podName is the name of the pod of a group's candidate in a zone.
func (g *group) podName(zone string) string { return g.name + "-" + zone }

// addPod makes the pod of the candidates in a zone. Those of client-go need none.
func (g *group) addPod(ctx context.Context, zone string) error {
	if !g.ours() {
		return nil
	}
	s := g.stage
	pod, err := s.bed.Cluster.AddPod(ctx, zone, g.podName(zone), s.namespace, map[string]string{"group": g.name})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods[g.podName(zone)] = pod
	return err
}
