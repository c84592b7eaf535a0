// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"testing"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/electiontest"
)

func TestALeaseHoldsTheLawsOfEveryLock(t *testing.T) {
	servers := map[election.Lock]*apiServer{}
	electiontest.RunSuite(t, electiontest.Suite{
		New: func(t *testing.T) election.Lock {
			a, client := newAPIServer(t)
			l := mustNew(t, client)
			servers[l] = a
			return l
		},
		Delete: func(_ *testing.T, l election.Lock) { servers[l].Delete(path) },
	})
}
