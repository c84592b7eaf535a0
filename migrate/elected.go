// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"

	"github.com/zonelect/zonelect/locks/ownerref"
)

// electionRecord checks that a step does not put two leaders side by side.
func electionRecord(r Report, to Phase) Check {
	c := Check{Name: "record", OK: true, Detail: r.recordText()}
	l, held := r.Legacy, r.Legacy.Holder
	switch {
	case l.Kind == "":
		return c.fails("it could not be read", "grant the verb get on "+l.Lock.Resource)
	case l.Kind == ownerref.Foreign:
		return c.fails(l.Why, "remove the annotation if no leader is alive")
	case to == Clean && held != "" && held != r.said.Holder:
		return c.fails("", "end the legacy electors, and wait until a candidate holds the Lease and the record")
	case to == Legacy && held == "" && r.said.Holder != "":
		// On the way back from clean the leader may be cut off, and has only the Lease.
		return c.fails("", fmt.Sprintf("wait until %s has the record too, which keeps legacy electors out until it has stopped", r.said.Holder))
	case to == Dual && r.Phase == Clean && r.electorLeads():
		c.Acknowledgeable = true
		return c.fails("", "end it: it may lead beside the candidates, whose term ends with this step")
	}
	return c
}

// recordFollowed says whether the candidates have followed the phase and, if not, why.
func (r *Report) recordFollowed() (done bool, why string) {
	why = r.recordText()
	switch r.Phase {
	case Legacy:
		return r.vacant(), r.said.Holder + " still holds the Lease"
	case Dual:
		return !r.vacant() && r.holder() != nil && r.Legacy.Holder == r.said.Holder, why + ", not yet by the leader"
	case Clean:
		return !r.vacant() && r.Legacy.Kind != "" && !r.Legacy.Ours, why + ", not yet taken off"
	}
	return false, "the phase can only be rolled back to dual"
}
