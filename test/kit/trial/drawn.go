// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"time"

	"github.com/zonelect/zonelect/internal/timeline"
	"github.com/zonelect/zonelect/test/kit/events"
)

// Terms are those that a candidate printed until end, for a page.
func Terms(lane string, printed []events.Event, end time.Time) (all []timeline.Term) {
	why := ""
	for _, e := range printed {
		last := len(all) - 1
		switch {
		case e.Time.After(end):
		case e.Event == "leading":
			all = append(all, timeline.Term{Lane: lane, From: e.Time, Token: e.Token, Cause: e.Cause})
		case e.Event == "stopping":
			why = e.Cause
		case e.Event == "stopped" && last >= 0:
			all[last].To, all[last].Ended = e.Time, why
		}
	}
	return all
}

// CutOff ends the last of a candidate's terms with the candidate. A zero time means that the
// candidate goes on.
func CutOff(terms []timeline.Term, gone time.Time, why string) {
	if last := len(terms) - 1; last >= 0 && terms[last].To.IsZero() && !gone.IsZero() {
		terms[last].To, terms[last].Ended = gone, why
	}
}
