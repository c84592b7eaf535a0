// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
)

// SetSuspended makes e believe that its machine has been suspended for as long
// as f says. Call it before Run.
func (e *Elector) SetSuspended(f func() time.Duration) {
	e.clock.asleep = func() suspension {
		slept := f()
		return suspension{slept, slept}
	}
}

// Ranking is what an elector that hands over does with its peers, without
// an elector.
type Ranking struct{ run run }

// NewRanking returns the ranking of a candidate with that configuration.
func NewRanking(c Config) *Ranking {
	return &Ranking{run{Elector: &Elector{config: c}, report: &reporter{}, observer: rules.NewObserver(rules.Self{}), exchange: &exchange{}}}
}

// Meet notes the peers, and ranks them as the successors of a holder that hands over.
func (k *Ranking) Meet(peers []locks.Peer, previous string) {
	k.run.setPeers(peers)
	_ = k.run.first(k.run.peers, k.run.takeover(rules.Freeing{Cause: status.CauseReleased, Holder: previous}))
}
