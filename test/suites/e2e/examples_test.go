// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"testing"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

// The examples that people copy hand over when they are told to end, and are followed after a kill.
func TestTheExamplesLeadAndHandOver(t *testing.T) {
	g := newGround(t, harmless, "examples")
	atOnce(t, map[string]func() []string{
		"minimal":            func() []string { return nil },
		"controller-runtime": func() []string { return nil },
	}, func(t *testing.T, args func() []string) {
		name := nameOf(t)
		terms := g.follow(t, g.namespace, name)
		leads := func(p *testbed.Process) {
			awaitLine(t, p, "leading")
		}
		begin := func(zone, which, says string) *testbed.Process {
			p := g.start(t, zone, built["./examples/"+name], name+"-"+which, args()...)
			awaitLog(t, p, says)
			return p
		}
		first := begin("za", "first", "leading")
		leads(first)
		second := begin("zb", "second", "following")
		must(t, first.Terminate())
		must(t, first.Wait(patience(t, soon)))
		awaitLine(t, first, "stopped")
		leads(second)
		third := begin("zc", "third", "following")
		must(t, second.Kill())
		leads(third)

		if name == "controller-runtime" {
			awaitLog(t, third, "Starting workers") // a manager that is told to end before that may end with an error
		}
		until(t, "the token of the third is on the Lease", func() bool {
			all := terms()
			return len(all) > 2 && all[len(all)-1].token != 0
		})
		all := terms()
		judgeTerms(t, all, timing.DefaultLeaseDuration)
		if !all[0].released {
			t.Errorf("%s did not release the lock when it was told to end", all[0].holder)
		}
		if last := all[len(all)-2]; last.released {
			t.Errorf("%s released the lock, though it was killed", last.holder)
		}
		must(t, third.Terminate())
		must(t, third.Wait(patience(t, soon)))
	})
}
