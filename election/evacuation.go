// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"fmt"
	"slices"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// evacuated returns the zones that are evacuated at a time.
func evacuated(text string, now time.Time) []string {
	all, _ := locks.ParseEvacuations(text)
	var zones []string
	for _, e := range all {
		if e.Until.IsZero() || now.Before(e.Until) {
			zones = append(zones, e.Zone)
		}
	}
	return zones
}

// leaveZone hands the term over while its own zone is evacuated. Where nobody
// can take it the term goes on, and that is told.
func (r *run) leaveZone(l *leadership) {
	zone := r.config.Candidate.Zone
	if l.phase != leading || zone == "" || !slices.Contains(evacuated(r.judge.renewal.Evacuated, time.Now()), zone) {
		r.stay(l, "")
		return
	}
	err := fmt.Errorf("%w: who else campaigns is not known to the leader", ErrNoSuccessor)
	if r.met != nil {
		err = r.handOver(l, locks.Successor{})
	}
	if err != nil {
		r.stay(l, fmt.Sprintf("zone %s is evacuated, and its candidate leads on: %v", zone, err))
		return
	}
	r.stay(l, "")
}

// stay tells why the term goes on in an evacuated zone, if that is news.
func (r *run) stay(l *leadership, why string) {
	if r.board.read().Staying == why {
		return
	}
	if l.phase == leading { // a release takes it off, and does not wait for a renewal
		l.say(why)
	}
	r.board.publish(ChangeStaying, nil, func(s *Status) { s.Staying = why })
	if why != "" {
		r.log.Info("staying in an evacuated zone", "why", why)
	}
}
