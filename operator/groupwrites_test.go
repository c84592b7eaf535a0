// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/environment"
	"github.com/zonelect/zonelect/internal/extension"
)

// TestAWriteThatGetsNoAnswerLeavesItsPlace to another one, once.
func TestAWriteThatGetsNoAnswerLeavesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &environment.Environment{Timing: timing.Timing{}.WithDefaults()}
		all, err := newLeases(extension.Place{Environment: e})
		if err != nil {
			t.Fatal(err)
		}
		enter := func() func() {
			leave, err := all.Enter(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return leave
		}
		began := time.Now()
		leave := enter()
		for range mostWrites - 1 {
			enter()
		}
		for range mostWrites {
			enter()
		}
		if took := time.Since(began); took != e.Timing.AttemptTimeout {
			t.Errorf("the next writes have waited for %v", took)
		}
		leave() // its answer has come after all
		began = time.Now()
		if enter(); time.Since(began) != e.Timing.AttemptTimeout {
			t.Errorf("one write too many is under way after %v", time.Since(began))
		}
	})
}
