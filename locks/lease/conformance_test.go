// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"testing"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

func TestALeaseHoldsTheLawsOfEveryLock(t *testing.T) {
	servers := map[locks.Lock]*apitest.Server{}
	lockstest.RunSuite(t, lockstest.Suite{
		New: func(t *testing.T) locks.Lock {
			a, client := newAPIServer(t)
			l := mustNew(t, client)
			servers[l] = a
			return l
		},
		Delete:       func(_ *testing.T, l locks.Lock) { servers[l].Delete(path) },
		StoreNothing: func(_ *testing.T, l locks.Lock) { servers[l].StoreNothing() },
	})
}
