// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"context"
	"errors"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// What a candidate learns from sources other than the lock: which candidates
// exist, and which are fit to lead. That is advice, and may be late or wrong.

var errSick = errors.New("unfit")

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

func (p *process) check(context.Context) error {
	p.gate.pass()
	if p.sick.Load() {
		return errSick
	}
	return nil
}
