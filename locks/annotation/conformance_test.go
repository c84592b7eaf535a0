// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"testing"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/electiontest"
	"github.com/zonelect/zonelect/internal/apitest"
)

func TestAnAnnotationHoldsTheLawsOfEveryLock(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind Kind) {
		servers := map[election.Lock]*apitest.Server{}
		electiontest.RunSuite(t, electiontest.Suite{
			New: func(t *testing.T) election.Lock {
				l, server := newLock(t, kind)
				servers[l] = server
				return l
			},
			Delete: func(_ *testing.T, l election.Lock) { servers[l].Delete(pathOf(kind)) },
		})
	})
}
