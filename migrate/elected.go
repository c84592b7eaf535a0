// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"fmt"
)

// Record returns the election record that moves to the Lease; zero if there is none.
func (r *Report) Record() ElectionRecord {
	for _, e := range r.ConfigMap.Elected {
		if r.legacy.Elected && e.Resource == r.legacy.Resource {
			return e
		}
	}
	return ElectionRecord{}
}

// electorLeads reports whether a legacy elector holds the record.
func (r *Report) electorLeads() bool { return r.Record().Holder != "" && !r.Record().Ours }

// recordText names the record and its holder.
func (r *Report) recordText() string {
	return fmt.Sprintf("%s/%s: held by %s", r.legacy.Resource, r.ConfigMap.Name, cmp.Or(r.Record().Holder, "nobody"))
}

// electionRecord checks that a step does not put two leaders side by side.
func electionRecord(r Report, to Phase) Check {
	c := Check{Name: "record", OK: true, Detail: r.recordText()}
	e, held := r.Record(), r.Record().Holder
	switch {
	case r.ConfigMap.Kind == "":
		return c.fails("it could not be read", "grant the verb get on "+r.legacy.Resource)
	case e.Error != "":
		return c.fails(e.Error, "remove the annotation if no leader is alive")
	case to == Clean && held != "" && held != r.Lease.Holder:
		return c.fails("", "end the legacy electors, and wait until a candidate holds the Lease and the record")
	case to == Legacy && held == "" && r.Lease.Holder != "":
		// On the way back from clean the leader may be cut off, and has only the Lease.
		return c.fails("", fmt.Sprintf("wait until %s has the record too, which keeps legacy electors out until it has stopped", r.Lease.Holder))
	case to == Dual && r.Phase == Clean && r.electorLeads():
		c.Acknowledgeable = true
		return c.fails("", "end it: it may lead beside the candidates, whose term ends with this step")
	}
	return c
}

// recordFollowed says whether the candidates have followed the phase and, if not, why. vacant
// says that nobody holds the Lease.
func (r *Report) recordFollowed(vacant bool) (done bool, why string) {
	why = r.recordText()
	switch r.Phase {
	case Legacy:
		return vacant, r.Lease.Holder + " still holds the Lease"
	case Dual:
		return !vacant && r.holder() != nil && r.Record().Holder == r.Lease.Holder, why + ", not yet by the leader"
	case Clean:
		return !vacant && r.ConfigMap.Kind != "" && !r.Record().Ours, why + ", not yet taken off"
	}
	return false, "the phase can only be rolled back to dual"
}
