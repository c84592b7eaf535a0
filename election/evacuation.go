// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"fmt"
	"slices"
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/locks"
)

// leaveEvacuatedZone hands the term over while the leader's zone is evacuated. If nobody
// can take over, the term goes on, and the elector publishes why.
func (l *leadership) leaveEvacuatedZone() {
	zone := l.me.Zone
	if l.cause != nil || zone == "" || !slices.Contains(rules.Evacuated(l.observer.LastRecord().Evacuated, time.Now()), zone) {
		l.stayOn("")
		return
	}
	err := fmt.Errorf("%w: who else campaigns is not known to the leader", ErrNoSuccessor)
	if l.peerUpdates != nil {
		err = l.handOver(locks.Successor{})
	}
	if err != nil {
		l.stayOn(fmt.Sprintf("zone %s is evacuated, and its candidate leads on: %v", zone, err))
		return
	}
	l.stayOn("")
}

// stayOn notes why the term goes on in an evacuated zone, if that has changed.
func (l *leadership) stayOn(why string) {
	if l.staying == why {
		return
	}
	l.staying = why
	if l.cause == nil { // a release removes it, without waiting for a renewal
		l.announce(why)
	}
	l.report.staying(why)
}
