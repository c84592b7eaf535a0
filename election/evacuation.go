// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Evacuation says that leadership should leave a zone, and stay out of it.
type Evacuation struct {
	Zone string
	// Until is when it ends, by the wall clock; zero means when it is taken
	// back. It decides who should lead, and never who may.
	Until time.Time
}

// FormatEvacuations returns what [Record] holds: zones, with a time where they
// have one, as "za,zb=2026-11-21T12:00:00Z". It is the inverse of
// [ParseEvacuations] to the second.
func FormatEvacuations(all []Evacuation) string {
	var texts []string
	for _, e := range all {
		if !e.Until.IsZero() {
			e.Zone += "=" + e.Until.UTC().Format(time.RFC3339)
		}
		texts = append(texts, e.Zone)
	}
	return strings.Join(texts, ",")
}

// ParseEvacuations reads what FormatEvacuations writes. What makes no sense is
// left out, and named in the error.
func ParseEvacuations(text string) ([]Evacuation, error) {
	var all []Evacuation
	var errs []error
	for part := range strings.SplitSeq(text, ",") {
		zone, until, limited := strings.Cut(strings.TrimSpace(part), "=")
		e := Evacuation{Zone: zone}
		var err error
		if limited {
			e.Until, err = time.Parse(time.RFC3339, until)
			if year := e.Until.UTC().Year(); err == nil && (year < 1970 || year > 9999) {
				err = errors.New("no such year") // a zero time would say that it never ends
			}
		}
		switch {
		case err != nil || zone == "" && limited:
			errs = append(errs, fmt.Errorf("evacuated zone %q: write ZONE, or ZONE=TIME with a time such as 2026-11-21T12:00:00Z", part))
		case zone != "":
			all = append(all, e)
		}
	}
	return all, errors.Join(errs...)
}

// evacuated returns the zones that are evacuated at a time.
func evacuated(text string, now time.Time) []string {
	all, _ := ParseEvacuations(text)
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
		err = r.handOver(l, Successor{})
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
