// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"testing"
	"time"

	"github.com/zonelect/zonelect/locks"
)

type renewer func() (time.Time, locks.Snapshot, error)

func (r renewer) Renew(context.Context, locks.Version) (time.Time, locks.Snapshot, error) { return r() }

// TestS1ASuspensionSinceABeatCounts, although whoever sent it read no clock that runs meanwhile.
func TestS1ASuspensionSinceABeatCounts(t *testing.T) {
	var asleep time.Duration
	c := &requester{clock: clock{asleep: func() suspension { return suspension{asleep, asleep} }}}
	a := &answer{request: request{before: c.clock.now()}, flight: &flight{}}
	c.renewer = renewer(func() (time.Time, locks.Snapshot, error) {
		sent := time.Now()
		asleep = time.Hour
		return sent, locks.Snapshot{}, nil
	})
	if !c.renewed(t.Context(), a) {
		t.Fatal("it is not renewed")
	}
	if left, _ := a.flight.departed(); c.clock.now().since(left) < time.Hour {
		t.Errorf("the beat is %v old", c.clock.now().since(left))
	}
}
