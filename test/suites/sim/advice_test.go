// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// What a candidate learns from sources other than the lock: which candidates
// exist, which are fit to lead, and which are dead. Only the last is certain. The
// rest is advice, and may be late or wrong.

var (
	errSick   = errors.New("unfit")
	errNotYet = errors.New("nobody can tell")
)

// peers reports the candidates now and then, and leaves some out.
func (p *process) peers(ctx context.Context, tell func([]locks.Peer)) {
	for ctx.Err() == nil {
		var all []locks.Peer
		for _, q := range p.world.current() {
			if !q.ours || p.pick(5) == 0 {
				continue
			}
			peer := locks.Peer{Candidate: q.candidate()}
			if q.sick.Load() {
				peer.Unhealthy = errSick.Error()
			}
			all = append(all, peer)
		}
		p.gate.pass()
		tell(all)
		select {
		case <-time.After(p.lease):
		case <-ctx.Done():
		}
	}
}

// dead waits for the end of a process, and reports it a while later. Now and
// then it suspects a live process, and cannot prove it dead.
func (p *process) dead(ctx context.Context, holder locks.Suspect) error {
	q := p.world.named(holder.Details.Holder)
	if q == nil || p.pick(4) == 0 {
		return errNotYet
	}
	if knew, back := p.world.back.Load(q); back && !slices.Contains(knew.([]*process), p) {
		return errNotYet
	}
	select {
	case <-q.gone:
	case <-q.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	time.Sleep(time.Duration(p.pick(200)) * time.Millisecond)
	p.gate.pass()
	return nil
}

func (p *process) check(context.Context) error {
	p.gate.pass()
	if p.sick.Load() {
		return errSick
	}
	return nil
}
