// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Evacuation asks leadership to leave a zone and to stay out of it.
type Evacuation struct {
	Zone string
	// Until is when the evacuation ends, by the wall clock. Zero means that it lasts
	// until somebody removes it. Evacuations affect which candidate should lead, and
	// never whether one may.
	Until time.Time
}

// FormatEvacuations returns the value of Record.Evacuated: zones separated by commas,
// each with its end if it has one, such as "za,zb=2026-11-21T12:00:00Z". It is the
// inverse of [ParseEvacuations], to the second.
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

// ParseEvacuations parses what FormatEvacuations returns. It leaves out invalid
// entries and names them in the error.
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
