// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"slices"
	"strings"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// findProblems adds problems and warnings to a report. It does no I/O.
func (r *Report) findProblems() {
	var f inspect.Findings
	if r.legacy.Elected {
		r.checkRecord(&f)
	} else {
		r.checkLocks(&f)
	}
	r.checkHolder(&f)
	r.checkCandidates(&f)
	r.Problems = append(r.Problems, f.Problems...)
	r.Warnings = slices.Concat(f.Warnings, f.Notes)
}

func (r *Report) checkLocks(f *inspect.Findings) {
	cm := r.ConfigMap
	beyond := r.Phase == Sealed || r.Phase == Clean
	switch lingering := cm.shield.Lingering(); {
	case lingering != "" && r.Phase == Clean:
		f.Warn("%s: legacy pods wait at it until then", lingering)
	case lingering != "":
		f.Problem("%s: it is not a shield to rely on, and no candidate begins to lead under it", lingering)
	case cm.shield.Bare && r.Phase == Legacy:
		f.Problem("the ConfigMap %s is empty and has no owner: legacy pods wait at it for good: remove it", cm.Name)
	case cm.Kind == ownerref.Foreign && !cm.shield.Bare:
		f.Problem("the ConfigMap %s is not a leader-for-life lock: %s", cm.Name, cm.Why)
	case cm.Kind == ownerref.Legacy && beyond:
		f.Problem("legacy pod %s holds the ConfigMap, though the phase is %s: it and a candidate may both lead: remove that pod; if more may start, roll back to phase dual once the ConfigMap has gone with it", cm.Owner, r.Phase)
	case cm.Kind == ownerref.Absent && r.Phase == Sealed:
		f.Problem("the sealed ConfigMap is gone: a legacy pod that starts now leads beside the candidates, until one of these puts it up again")
	}
	if len(cm.Presumed) > 0 {
		f.Warn("legacy pods count as gone though nothing proves it: %s: remove them, or their nodes", strings.Join(cm.Presumed, ", "))
	}
	for _, e := range cm.Elected {
		if e.Error != "" {
			f.Problem("%s %s: %s", e.Resource, cm.Name, e.Error)
		} else if e.Resource != "configmaps" {
			f.Warn("%s %s holds an election record of client-go, of %q: electors that use it know nothing of this migration", e.Resource, cm.Name, e.Holder)
		}
	}
}

func (r *Report) checkHolder(f *inspect.Findings) {
	l, h := r.Lease, r.holder()
	switch {
	case !l.Exists && r.Phase != "":
		f.Problem("the Lease does not exist: no candidate runs, or none may write it")
	case r.Phase == Legacy || r.Phase == "" && l.Holder == "":
	case l.Holder == "":
		if !r.electorLeads() {
			f.Problem("nobody holds the Lease")
		}
	case l.Expired:
		f.Problem("%s holds the Lease, but has not renewed it since %s, by the clock of this machine", l.Holder, l.Renewed)
	case h == nil:
		f.Warn("%s holds the Lease and has no presence in mode auto or dual at the lock: it does not take part in the migration, and does nothing about the legacy lock", l.Holder)
	case h.Waiting != "":
		f.Warn("%s holds the Lease and waits: %s", h.Name(), h.Waiting)
	}
}

func (r *Report) checkCandidates(f *inspect.Findings) {
	var alone []string
	for _, c := range r.lock.Candidates {
		if c.Exists && c.Mode == presence.Alone {
			alone = append(alone, c.Name())
		}
	}
	if len(alone) > 0 && !r.leaseAlone() {
		f.Warn("candidates in mode lease, which stay back in phase %s: %s: run them in mode auto", r.Phase, strings.Join(alone, ", "))
	}
	if len(r.running()) == 0 && r.Phase != "" {
		f.Problem("no candidate with a presence in mode auto or dual runs: nobody follows the phase")
	}
}
