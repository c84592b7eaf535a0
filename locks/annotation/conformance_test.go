// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"testing"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

func TestAnAnnotationHoldsTheLawsOfEveryLock(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind Kind) {
		servers := map[locks.Lock]*apitest.Server{}
		lockstest.RunSuite(t, lockstest.Suite{
			New: func(t *testing.T) locks.Lock {
				l, server := newLock(t, kind)
				servers[l] = server
				return l
			},
			Delete:       func(_ *testing.T, l locks.Lock) { servers[l].Delete(pathOf(kind)) },
			StoreNothing: func(_ *testing.T, l locks.Lock) { servers[l].StoreNothing() },
		})
	})
}
