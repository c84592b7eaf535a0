// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"fmt"
	"slices"
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
)

// leaveEvacuatedZone hands the term over while the leader's zone is evacuated. If nobody
// can take over, the term goes on, and the elector publishes why.
func (l *leadership) leaveEvacuatedZone() {
	zone := l.config.Candidate.Zone
	if l.cause != nil || zone == "" || !slices.Contains(rules.Evacuated(l.observer.LastRecord().Evacuated, time.Now()), zone) {
		l.publishStaying("")
		return
	}
	err := fmt.Errorf("%w: who else campaigns is not known to the leader", ErrNoSuccessor)
	if l.peerUpdates != nil {
		err = l.handOver(locks.Successor{})
	}
	if err != nil {
		l.publishStaying(fmt.Sprintf("zone %s is evacuated, and its candidate leads on: %v", zone, err))
		return
	}
	l.publishStaying("")
}

// publishStaying publishes why the term goes on in an evacuated zone, if that has changed.
func (l *leadership) publishStaying(why string) {
	if l.board.read().Staying == why {
		return
	}
	if l.cause == nil { // a release removes it, without waiting for a renewal
		l.announce(why)
	}
	l.board.publish(status.ChangeStaying, nil, func(s *Status) { s.Staying = why })
	if why != "" {
		l.log.Info("staying in an evacuated zone", "why", why)
	}
}
