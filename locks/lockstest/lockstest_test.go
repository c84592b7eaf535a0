// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package lockstest_test

import (
	"testing"

	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/memory"
)

func TestMemoryHoldsTheLaws(t *testing.T) {
	lockstest.RunSuite(t, lockstest.Suite{
		New:    func(t *testing.T) locks.Lock { return memory.New(t.Name()) },
		Delete: func(_ *testing.T, l locks.Lock) { l.(*memory.Lock).Delete() },
	})
}

func TestAFaultyLockWithoutFaultsHoldsTheLaws(t *testing.T) {
	lockstest.RunSuite(t, lockstest.Suite{
		New: func(t *testing.T) locks.Lock { return lockstest.NewFaulty(memory.New(t.Name())) },
	})
}
