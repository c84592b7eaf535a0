// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package shield_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/locks/multilock/internal/multilocktest"
)

// TestM8ATermEndsWhereSomethingDeletesTheShieldAsFastAsItIsMade, and shields are made at the rate
// of renewals then.
func TestM8ATermEndsWhereSomethingDeletesTheShieldAsFastAsItIsMade(t *testing.T) {
	multilocktest.Scenario(t, func(s *multilocktest.Stage) {
		a := s.Leader("a")
		s.Server.Delete(multilocktest.MapPath)
		synctest.Wait()
		a.Stays()
		shielded(s, 1)
		s.Server.Delete(multilocktest.MapPath)
		losesToLegacy(s, a, 0)
		s.Forget()
		const span = 2 * time.Minute
		for began := time.Now(); time.Since(began) < span; time.Sleep(50 * time.Millisecond) {
			s.Server.Delete(multilocktest.MapPath)
		}
		a.Leads() // once nothing deletes it any more
		if n, most := s.Asked("create "+multilocktest.MapsPath), int(span/time.Second); n > most {
			t.Errorf("%d shields in %v", n, span)
		}
	})
}
