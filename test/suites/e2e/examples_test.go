// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"testing"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

// The example that people copy hands over when it is told to end, and is followed after a kill.
func TestTheExampleLeadsAndHandsOver(t *testing.T) {
	g := newGround(t, harmless, "examples")
	const name = "minimal"
	terms := g.follow(t, g.namespace, name)
	leads := func(p *testbed.Process) {
		awaitLine(t, p, "leading")
	}
	begin := func(zone, which, says string) *testbed.Process {
		p := g.start(t, zone, built["./examples/"+name], name+"-"+which)
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
}
