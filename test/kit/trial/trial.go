// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trial puts candidates into a testbed's zones, and reads what they print.
package trial

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

// Kind is a program that campaigns.
type Kind string

// The programs.
const (
	Zonelect Kind = "candidate"
	ClientGo Kind = "peer"
	Legacy   Kind = "legacy" // the peer that leads for life, unless its arguments name another --kind
	Become   Kind = "become" // operator-lib's leader-for-life; see Start
	Manager  Kind = "manager"
)

// built holds the programs that this test process has already built: their
// sources do not change, and linking takes longer than an election.
var built = struct {
	sync.Mutex
	paths map[Kind]string
}{paths: map[Kind]string{}}

func build(ctx context.Context, kind Kind) (path string, err error) {
	built.Lock()
	defer built.Unlock()
	if kind == Legacy {
		kind = ClientGo
	}
	if path, ok := built.paths[kind]; ok {
		return path, nil
	}
	program := "./test/programs/" + string(kind)
	if kind == Become {
		path, err = testbed.BuildTool(ctx, program, ".", string(kind))
	} else {
		path, err = testbed.BuildProgram(ctx, program)
	}
	if err == nil {
		built.paths[kind] = path
	}
	return path, err
}

// Build builds programs in advance, so that the first Start is faster.
func Build(ctx context.Context, kinds ...Kind) error {
	for _, kind := range kinds {
		if _, err := build(ctx, kind); err != nil {
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
	read   int // lines
	events []events.Event
}

// Start builds the program, if need be, and runs it in the zone. The identity
// of a legacy program is also the name of its pod. Become needs root, on Linux.
func Start(ctx context.Context, bed *testbed.Testbed, kind Kind, zone, lock, identity string, args ...string) (*Seat, error) {
	path, err := build(ctx, kind)
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
	case Legacy:
		all = append(all, "--pod-name", identity, "--kind", "ownerref")
	case Become:
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
	return &Seat{Process: p, Identity: identity, Zone: zone, Kind: kind}
}

// Events returns what was printed so far.
func (s *Seat) Events() []events.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := s.Output()
	for _, line := range lines[s.read:] {
		var e events.Event
		if json.Unmarshal([]byte(line), &e) == nil {
			s.events = append(s.events, e)
		}
	}
	s.read = len(lines)
	return slices.Clone(s.events)
}

// Await returns the first event of that name that was printed at or after
// since.
func (s *Seat) Await(ctx context.Context, name string, since time.Time) (events.Event, error) {
	_, e, err := AwaitAny(ctx, []*Seat{s}, name, since)
	return e, err
}

// AwaitAny returns the first seat that prints an event of that name.
func AwaitAny(ctx context.Context, seats []*Seat, name string, since time.Time) (by *Seat, first events.Event, err error) {
	for {
		for _, s := range seats {
			for _, e := range s.Events() {
				if e.Event == name && !e.Time.Before(since) && (by == nil || e.Time.Before(first.Time)) {
					by, first = s, e
				}
			}
		}
		if by != nil {
			return by, first, nil
		}
		if err := sleep.For(ctx, 10*time.Millisecond); err != nil {
			return nil, first, fmt.Errorf("wait for %s of %d to print %q: %w", seats[0].Identity, len(seats), name, err)
		}
	}
}
