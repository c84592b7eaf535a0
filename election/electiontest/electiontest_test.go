// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package electiontest_test

import (
	"testing"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/electiontest"
)

func TestMemoryHoldsTheLaws(t *testing.T) {
	electiontest.RunSuite(t, electiontest.Suite{
		New:    func(t *testing.T) election.Lock { return electiontest.NewMemory(t.Name()) },
		Delete: func(_ *testing.T, l election.Lock) { l.(*electiontest.Memory).Delete() },
	})
}

func TestAFaultyLockWithoutFaultsHoldsTheLaws(t *testing.T) {
	electiontest.RunSuite(t, electiontest.Suite{
		New: func(t *testing.T) election.Lock { return electiontest.NewFaulty(electiontest.NewMemory(t.Name())) },
	})
}
