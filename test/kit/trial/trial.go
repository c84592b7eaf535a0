// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trial puts candidates into a testbed's zones, observes what they
// print and what their Lease shows, and reads how a takeover went.
package trial

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

// Kind is a program that campaigns.
type Kind string

// The programs.
const (
	Zonelect Kind = "candidate"
	ClientGo Kind = "peer"
	Legacy   Kind = "legacy"
	Become   Kind = "become" // operator-lib's leader-for-life; see Start
	Manager  Kind = "manager"
)

// built holds the programs that this test process has already built: their
// sources do not change, and linking takes longer than an election.
type built struct {
	mu    sync.Mutex
	paths map[Kind]string
}

var programs = built{paths: map[Kind]string{}}

func (b *built) build(ctx context.Context, kind Kind) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if path, ok := b.paths[kind]; ok {
		return path, nil
	}
	program := "./test/programs/" + string(kind)
	build := func() (string, error) { return testbed.BuildProgram(ctx, program) }
	if kind == Become {
		build = func() (string, error) { return testbed.BuildTool(ctx, program, ".", string(kind)) }
	}
	path, err := build()
	if err == nil {
		b.paths[kind] = path
	}
	return path, err
}

// Build builds programs in advance, so that the first Start is faster.
func Build(ctx context.Context, kinds ...Kind) error {
	for _, kind := range kinds {
		if _, err := programs.build(ctx, kind); err != nil {
			return err
		}
	}
	return nil
}

// Seat is one candidate in a zone.
type Seat struct {
	*testbed.Process
	Identity, Zone, Traces string
	Kind                   Kind

	mu     sync.Mutex
	events []events.Event
	more   chan struct{} // closed when there is another event
}

// Start builds the program, if need be, and runs it in the zone. The identity
// of a legacy program is also the name of its pod. Become needs root, on Linux.
func Start(ctx context.Context, bed *testbed.Testbed, kind Kind, zone, lock, identity string, args ...string) (*Seat, error) {
	path, err := programs.build(ctx, kind)
	if err != nil {
		return nil, err
	}
	all := []string{"--kubeconfig", bed.Cluster.Kubeconfig(zone), "--lock", lock, "--identity", identity}
	traces := filepath.Join(bed.Dir(), identity+".spans")
	switch kind {
	case Zonelect:
		all = append(all, "--zone", zone, "--traces", traces)
	case Manager:
		all = append(all, "--zone", zone)
	case Legacy, Become:
		all = append(all, "--pod-name", identity)
	}
	p, err := bed.StartProcess(zone, testbed.ProcessSpec{Name: identity, Path: path, Args: append(all, args...)})
	if err != nil {
		return nil, err
	}
	s := Seated(p, kind, zone, identity)
	if kind == Zonelect {
		s.Traces = traces
	}
	return s, nil
}

// Seated returns the seat of a program that runs already.
func Seated(p *testbed.Process, kind Kind, zone, identity string) *Seat {
	s := &Seat{Process: p, Identity: identity, Zone: zone, Kind: kind, more: make(chan struct{})}
	go s.read(s.Lines(context.Background()))
	return s
}

// read collects the events until the process and its output have ended.
func (s *Seat) read(lines <-chan testbed.Line) {
	for line := range lines {
		var e events.Event
		if json.Unmarshal([]byte(line.Text), &e) != nil {
			continue
		}
		s.mu.Lock()
		s.events = append(s.events, e)
		close(s.more)
		s.more = make(chan struct{})
		s.mu.Unlock()
	}
}

// Events returns what was printed so far.
func (s *Seat) Events() []events.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]events.Event(nil), s.events...)
}

// Await returns the first event of that name that was printed at or after
// since.
func (s *Seat) Await(ctx context.Context, name string, since time.Time) (events.Event, error) {
	for {
		s.mu.Lock()
		more := s.more
		for _, e := range s.events {
			if e.Event == name && !e.Time.Before(since) {
				s.mu.Unlock()
				return e, nil
			}
		}
		s.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			return events.Event{}, fmt.Errorf("wait for %s to print %q: %w", s.Identity, name, ctx.Err())
		}
	}
}

// AwaitAny returns the first seat that prints an event of that name.
func AwaitAny(ctx context.Context, seats []*Seat, name string, since time.Time) (*Seat, events.Event, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		seat  *Seat
		event events.Event
		err   error
	}
	results := make(chan result, len(seats))
	for _, s := range seats {
		go func() {
			e, err := s.Await(ctx, name, since)
			results <- result{s, e, err}
		}()
	}
	r := <-results
	return r.seat, r.event, r.err
}

// Renewal is one renewal that an observer saw.
type Renewal struct {
	Holder string
	Sent   time.Time // by the holder's clock: nobody with the same clock may lead sooner than a lease after it
	Seen   time.Time
}

// Observer watches a Lease from outside, through an apiserver that is up.
type Observer struct {
	mu   sync.Mutex
	last Renewal
}

// Observe watches until ctx ends.
func Observe(ctx context.Context, cfg *rest.Config, lock string) (*Observer, error) {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("observe %s: %w", lock, err)
	}
	watch, err := client.CoordinationV1().Leases("default").Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + lock})
	if err != nil {
		return nil, fmt.Errorf("observe %s: %w", lock, err)
	}
	o := &Observer{}
	go func() {
		defer watch.Stop()
		for event := range watch.ResultChan() {
			if lease, ok := event.Object.(*coordinationv1.Lease); ok && lease.Spec.HolderIdentity != nil {
				r := Renewal{Holder: *lease.Spec.HolderIdentity, Seen: time.Now()}
				if at := lease.Spec.RenewTime; at != nil {
					r.Sent = at.Time
				}
				o.mu.Lock()
				o.last = r
				o.mu.Unlock()
			}
		}
	}()
	return o, nil
}

// Last returns the newest renewal.
func (o *Observer) Last() Renewal {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}
