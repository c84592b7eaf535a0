// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"sync"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// deaths asks once for the proof that a process has ended, however many locks it held. prove
// is what asks, in the form of election.Config.ProveDead.
type deaths struct {
	prove func(ctx context.Context, holder locks.Suspect) error

	mu     sync.Mutex
	probes map[process]*probe
}

// process is what the proof of a holder's death is about.
type process struct {
	pod   locks.Pod
	id    locks.ProcessID
	early bool
}

// probe asks about one process.
type probe struct {
	acquired time.Time // the proof holds for locks that it acquired no later
	asking   int       // how many wait
	cancel   context.CancelFunc
	done     chan struct{}
	err      error
}

// dead is election.Config.ProveDead of all elections of a Group.
func (d *deaths) dead(ctx context.Context, holder locks.Suspect) error {
	about := process{holder.Details.Pod, holder.Details.ProcessID, holder.Early}
	if about.pod == (locks.Pod{}) || about.id == (locks.ProcessID{}) {
		return d.prove(ctx, holder)
	}
	p := d.join(ctx, about, holder)
	defer d.leave(about, p)
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// join returns the probe of a process, and begins one if there is none that proves enough.
func (d *deaths) join(ctx context.Context, about process, holder locks.Suspect) *probe {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.probes[about]
	if p == nil || holder.Acquired.After(p.acquired) {
		asking, cancel := context.WithCancel(context.WithoutCancel(ctx))
		p = &probe{acquired: holder.Acquired, cancel: cancel, done: make(chan struct{})}
		if d.probes == nil {
			d.probes = map[process]*probe{}
		}
		d.probes[about] = p
		go func() {
			p.err = d.prove(asking, holder)
			close(p.done)
		}()
	}
	p.asking++
	return p
}

// leave ends a probe that nobody waits for.
func (d *deaths) leave(about process, p *probe) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.asking--; p.asking > 0 {
		return
	}
	p.cancel()
	if d.probes[about] == p {
		delete(d.probes, about)
	}
}
