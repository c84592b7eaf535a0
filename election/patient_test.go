// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/locks/lockstest"
)

// patientOutages are the ways in which the API is away: it is silent, it refuses, or both in turn.
var patientOutages = map[string][]lockstest.Fault{
	"silent":                {cut},
	"refusing":              {{Err: errors.New("connection refused")}},
	"silent, then refusing": {cut, {Err: errors.New("503")}},
	"refusing, then silent": {{Err: errors.New("503")}, cut},
	"writes are lost":       {{Hold: true, LoseWrites: true}},
	"answers are lost":      {{LoseAnswers: true, LoseReads: true}},
}

// TestAPatientTermSurvivesAnOutageOf45SecondsAtAnyMoment. So does a usual one an outage of 5 seconds, and a fast
// one an outage of a second.
func TestAPatientTermSurvivesAnOutageOf45SecondsAtAnyMoment(t *testing.T) {
	for lasts, of := range map[time.Duration]timing.Timing{
		45 * time.Second: timing.Patient(), 5 * time.Second: timing.Timing{}.WithDefaults(), time.Second: timing.Fast(),
	} {
		for name, faults := range patientOutages {
			for _, delay := range []time.Duration{0, 25 * time.Millisecond} {
				t.Run(fmt.Sprint(lasts, " ", name, ", requests take ", 2*delay), func(t *testing.T) {
					for after := time.Millisecond; after < of.RenewInterval; after += 93 * time.Millisecond {
						scenario(t, func(s *stage) {
							a := s.leader("a", func(c *election.Config) { c.Timing = of })
							a.link.Set(lockstest.Fault{Delay: delay})
							time.Sleep(5*time.Minute + after)
							for _, fault := range faults {
								a.link.Set(fault)
								time.Sleep(lasts / time.Duration(len(faults)))
							}
							a.link.Set(lockstest.Fault{Delay: delay})
							time.Sleep(3 * of.LeaseDuration)
							a.Stays()
						})
					}
				})
			}
		}
	}
}
