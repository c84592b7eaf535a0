// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks/multilock/internal/multilocktest"
)

// TestWhoIsBarredKeepsNoLockThatItLost: in phase dual it may not come back for it.
func TestWhoIsBarredKeepsNoLockThatItLost(t *testing.T) {
	multilocktest.Scenario(t, func(s *multilocktest.Stage) {
		a := s.StartPlain("a")
		a.SetStopTime(3 * time.Second)
		a.Leads()
		time.Sleep(9 * time.Second) // no renewal is under way
		s.Server.Change(multilocktest.LeasePath, func(o apitest.Object) {
			o["spec"].(apitest.Object)["holderIdentity"] = ""
			an := o["metadata"].(apitest.Object)["annotations"].(apitest.Object)
			an["zonelect.dev/phase"], an["zonelect.dev/phase-step"] = "dual", "1"
		})
		synctest.Wait()
		time.Sleep(5 * time.Second)
		b := s.Start("b")
		_, took := b.Leads()
		if took > 5*time.Second {
			t.Errorf("nobody led for %v", took)
		}
	})
}
