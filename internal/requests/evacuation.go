// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package requests reads and writes what people ask for by annotations of a lock: that its holder hands
// it over, and that leadership leaves zones. It is pure: no I/O, no clock.
package requests

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Evacuation asks leadership to leave a zone and to stay out of it. A lock's evacuations, as locks.Record
// has them, are zones separated by commas, each with its end if it has one, such as
// "za,zb=2026-11-21T12:00:00Z".
type Evacuation struct {
	Zone string `json:"zone"`
	// Until is when the evacuation ends, by the wall clock. Zero means that it lasts
	// until somebody removes it. Evacuations affect which candidate should lead, and
	// never whether one may.
	Until time.Time `json:"until,omitzero"`
}

// FormatEvacuations is the inverse of [ParseEvacuations], to the second.
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

// ParseEvacuations returns the evacuations. It leaves out invalid entries and names them in the error.
func ParseEvacuations(text string) ([]Evacuation, error) {
	var all []Evacuation
	var errs []error
	for part := range strings.SplitSeq(text, ",") {
		zone, until, limited := strings.Cut(strings.TrimSpace(part), "=")
		one := Evacuation{Zone: zone}
		var err error
		if limited {
			one.Until, err = time.Parse(time.RFC3339, until)
			if year := one.Until.UTC().Year(); err == nil && (year < 1970 || year > 9999) {
				err = errors.New("no such year") // a zero time would mean that it never ends
			}
		}
		switch {
		case err != nil || zone == "" && limited:
			errs = append(errs, fmt.Errorf("evacuated zone %q: write ZONE, or ZONE=TIME with a time such as 2026-11-21T12:00:00Z", part))
		case zone != "":
			all = append(all, one)
		}
	}
	return all, errors.Join(errs...)
}

// InForce returns the valid evacuations that have not ended.
func InForce(text string, now time.Time) []Evacuation {
	all, _ := ParseEvacuations(text)
	return slices.DeleteFunc(all, func(one Evacuation) bool { return !one.Until.IsZero() && !now.Before(one.Until) })
}
