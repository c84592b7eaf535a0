// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestAZoneIsKnownSoonAfterItCanBe: those who grant a right or label a node wait for the effect. Until then
// it is asked for seldom: 500 candidates would ask three times a second.
func TestAZoneIsKnownSoonAfterItCanBe(t *testing.T) {
	for _, after := range []time.Duration{0, 10 * time.Second, 2 * time.Minute, 10 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			ctx, end := context.WithTimeout(t.Context(), after+min(10*time.Second+2*after, 2*mostPause))
			defer end()
			began, asked := time.Now(), 0
			zone := awaitZone(ctx, func() (string, error) {
				if asked++; time.Since(began) < after {
					return "", errors.New("forbidden")
				}
				return "z1", nil
			})
			if zone != "z1" || asked > 30+int(after/(2*time.Minute)) {
				t.Errorf("%v after it could be known, the zone is %q, by %d questions", time.Since(began)-after, zone, asked)
			}
		})
	}
}

func TestAZoneIsNotWatchedWhereNothingCanChangeIt(t *testing.T) {
	for name, self := range map[string]Self{"known": {Node: "n", Zone: "z"}, "on no node": {}} {
		(&Environment{Self: self}).WatchZone(t.Context(), func(z string) { t.Errorf("%s: told %q", name, z) })
	}
}
