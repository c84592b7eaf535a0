// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"errors"
	"testing"

	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// Where the API of Leases is off, nobody leads, and that is not taken for a missing right.
func TestAnAPIThatIsOffIsNoMissingVerb(t *testing.T) {
	config := plain
	config.APIServerFlags = []string{"--runtime-config=coordination.k8s.io/v1=false"}
	c := newContest(t, trial.Bed(t, config), "default", "lock")
	admin, nobody := c.enter("admin"), c.enter("nobody", c.asUser)
	problem := admin.complains("does not serve leases of coordination.k8s.io/v1")
	if !errors.Is(problem, locks.ErrNoAPI) || errors.Is(problem, locks.ErrForbidden) || errors.Is(problem, locks.ErrConflict) {
		t.Errorf("%v: want ErrNoAPI and no other", problem)
	}
	// A user who may not read the Lease is not told whether it exists.
	isForbidden(t, nobody.complains(c.missing("get")))
	c.grant(verbs...)
	if problem := nobody.complains("does not serve leases"); !errors.Is(problem, locks.ErrNoAPI) || errors.Is(problem, locks.ErrForbidden) {
		t.Errorf("%v: want ErrNoAPI and no other", problem)
	}
	if n := c.terms(); n != 0 {
		t.Errorf("%d terms without a lock", n)
	}
}
