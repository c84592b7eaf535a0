// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

package e2e_test

import (
	"cmp"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

// pair is a program that polls the sidecar beside it.
type pair struct {
	zone, address    string
	sidecar, program *testbed.Process
}

// stint is the work of a program in a term, by what the program prints.
type stint struct {
	token    uint64
	by       *pair
	from, to time.Time // to is zero while it works
}

// polled are replicas in three zones, and the programs that ran there.
type polled struct {
	*sidecars
	python   string
	replicas []*pair
	ran      map[*testbed.Process]*pair
	killed   map[*testbed.Process]time.Time
}

func newPolled(t *testing.T) *polled {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3: apt-get install python3")
	}
	p := &polled{sidecars: newSidecars(t), python: python, ran: map[*testbed.Process]*pair{}, killed: map[*testbed.Process]time.Time{}}
	for _, zone := range threeZones {
		r := &pair{zone: zone, address: "127.0.0.1:" + freePort(t)}
		p.replicas = append(p.replicas, r)
		p.startSidecar(r)
		p.startProgram(r)
	}
	return p
}

func (p *polled) startSidecar(r *pair) {
	p.Helper()
	r.sidecar = p.run(fmt.Sprintf("sidecar-%s-%d", r.zone, len(p.ran)), r.zone, "--address="+r.address)
}

// startProgram starts the example. It asks three times a second, because the timing of these
// sidecars leaves a program 1.56 s, of which a request may take one.
func (p *polled) startProgram(r *pair) {
	p.Helper()
	var err error
	r.program, err = p.StartProcess(r.zone, testbed.ProcessSpec{
		Name: fmt.Sprintf("program-%s-%d", r.zone, len(p.ran)), Path: p.python,
		Args: []string{filepath.Join(filepath.Dir(p.script), "poll.py")},
		Env:  []string{"ZONELECT_URL=http://" + r.address, "POLL=0.3"},
	})
	must(p.T, err)
	p.ran[r.program] = r
}

// stints returns the work of all programs, by its tokens.
func (p *polled) stints() []stint {
	p.Helper()
	var all []stint
	for program, r := range p.ran {
		for _, line := range program.Output() {
			one := stint{by: r, to: p.killed[program]}
			if _, err := fmt.Sscanf(line.Text, "leading with token %d", &one.token); err == nil {
				one.from = line.Time
				all = append(all, one)
				continue
			}
			if _, err := fmt.Sscanf(line.Text, "stopped with token %d", &one.token); err != nil {
				p.Fatalf("%s printed %q", r.zone, line.Text)
			}
			i := slices.IndexFunc(all, func(s stint) bool { return s.by == r && s.token == one.token })
			if i < 0 {
				p.Fatalf("%s stopped with token %d and never led with it", r.zone, one.token)
			}
			all[i].to = line.Time
		}
	}
	slices.SortFunc(all, func(a, b stint) int { return cmp.Compare(a.token, b.token) })
	return all
}

// next waits until a program leads with a larger token.
func (p *polled) next(after uint64) stint {
	p.Helper()
	for {
		for _, s := range p.stints() {
			if s.token > after {
				return s
			}
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-p.ctx.Done():
			p.Fatalf("nobody led after token %d", after)
		}
	}
}

// TestAProgramThatPollsASidecarStopsBeforeTheNextLeads: when it is told to end, when it dies,
// when its sidecar is killed, and when its zone is cut off.
func TestAProgramThatPollsASidecarStopsBeforeTheNextLeads(t *testing.T) {
	p := newPolled(t)
	for _, r := range p.replicas {
		awaitLog(t, p.ctx, r.sidecar, "/leader") // it serves, and has said how long a program has
	}

	first := p.next(0)
	asked := time.Now()
	must(t, first.by.program.Terminate())
	second := p.next(first.token)
	took := second.from.Sub(asked)
	t.Logf("the next led %v after the SIGTERM", took)
	if took > 3*time.Second {
		t.Errorf("a handover took %v, as long as if the program had not said that it stopped", took)
	}
	must(t, first.by.program.Wait(p.ctx))
	p.startProgram(first.by)

	cut := time.Now()
	must(t, second.by.sidecar.Kill())
	third := p.next(second.token)
	t.Logf("the next led %v after the sidecar was killed", third.from.Sub(cut))
	p.startSidecar(second.by)
	awaitLog(t, p.ctx, second.by.sidecar, "following")

	cut = time.Now()
	must(t, third.by.program.Kill())
	p.killed[third.by.program] = time.Now()
	fourth := p.next(third.token)
	t.Logf("the next led %v after the program died, which nobody started again", fourth.from.Sub(cut))
	p.startProgram(third.by)

	cut = time.Now()
	must(t, p.Network.PartitionFromAll(fourth.by.zone))
	fifth := p.next(fourth.token)
	t.Logf("the next led %v after the zone was cut off", fifth.from.Sub(cut))

	all := p.stints()
	for i, s := range all {
		if i+1 == len(all) {
			break
		}
		if next := all[i+1]; s.token == next.token || s.to.IsZero() || s.to.After(next.from) {
			t.Errorf("the program in zone %s worked with token %d from %v to %v, and that in %s with %d from %v",
				s.by.zone, s.token, s.from, s.to, next.by.zone, next.token, next.from)
		}
	}
	if len(all) < 5 { // more if a term is lost on a busy machine
		t.Errorf("%d stints, want 5 at least: %+v", len(all), all)
	}
}
