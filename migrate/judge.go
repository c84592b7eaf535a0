// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// judge adds problems and warnings to a report. It does no I/O.
func (r *Report) judge() {
	if r.legacy.Elected {
		r.judgeRecord()
	} else {
		r.judgeLocks()
	}
	r.judgeHolder()
	r.judgeCandidates()
}

func (r *Report) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

func (r *Report) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

func (r *Report) judgeLocks() {
	cm := r.ConfigMap
	beyond := r.Phase == Sealed || r.Phase == Clean
	switch {
	case cm.Kind == ownerref.Foreign:
		r.problem("the ConfigMap %s is no leader-for-life lock: %s", cm.Name, cm.Why)
	case cm.Kind == ownerref.Legacy && beyond:
		r.problem("legacy pod %s holds the ConfigMap, though the phase is %s: it and a candidate may both lead: remove that pod, or roll back", cm.Owner, r.Phase)
	case cm.Kind == ownerref.Absent && r.Phase == Sealed:
		r.problem("the sealed ConfigMap is gone: a legacy pod that starts now leads beside the candidates, until one of these puts it up again")
	case cm.Kind == ownerref.Shield && r.Phase == Legacy:
		r.problem("the shield is still up in phase legacy: no legacy pod can lead before the holder of the Lease, or the next candidate that gets it, has taken it down, or the pods of all candidates are gone")
	case cm.Kind == ownerref.Shield && !cm.Armed:
		r.warn("the shield is not armed yet: no candidate begins to lead under it")
	}
	if len(cm.Presumed) > 0 {
		r.warn("legacy pods count as gone though nothing proves it: %s: remove them, or their nodes", strings.Join(cm.Presumed, ", "))
	}
	if r.Lease.Phase != "" && cm.Phase != "" && (r.Lease.Phase != cm.Phase || r.Lease.Step != cm.Step) {
		r.warn("the Lease says phase %s (step %d), the ConfigMap %s (step %d): the later step counts, and the leader brings the other up to it", r.Lease.Phase, r.Lease.Step, cm.Phase, cm.Step)
	}
	for _, e := range cm.Elected {
		if e.Error != "" {
			r.problem("%s %s: %s", e.Resource, cm.Name, e.Error)
		} else if e.Resource != "configmaps" {
			r.warn("%s %s holds an election record of client-go, of %q: electors that use it know nothing of this migration", e.Resource, cm.Name, e.Holder)
		}
	}
}

func (r *Report) judgeHolder() {
	l, h := r.Lease, r.holder()
	switch {
	case !l.Exists && r.Phase != "":
		r.problem("the Lease does not exist: no candidate runs, or none may write it")
	case r.Phase == Legacy || r.Phase == "" && l.Holder == "":
	case l.Holder == "":
		if !r.electorLeads() {
			r.problem("nobody holds the Lease")
		}
	case l.Expired:
		r.problem("%s holds the Lease, but has not renewed it since %s, by the clock of this machine", l.Holder, l.Renewed)
	case h == nil:
		r.warn("%s holds the Lease and has no presence in mode auto or dual at the lock: it does not take part in the migration, and does nothing about the legacy lock", l.Holder)
	case h.Waiting != "":
		r.warn("%s holds the Lease and waits: %s", h.Pod, h.Waiting)
	}
}

func (r *Report) judgeCandidates() {
	running := r.running()
	able := r.mayLead()
	zones := map[string]bool{}
	for _, c := range able {
		zones[c.Zone] = true
	}
	var away, alone []string
	for _, c := range r.Candidates {
		switch {
		case !c.Exists:
			r.warn("the presence %s is left over: its pod %s is gone, and the garbage collector has not removed it yet", c.Presence, c.Pod)
			continue
		case !c.Ready:
			r.warn("candidate %s is not Ready", c.Pod)
		}
		switch c.Mode {
		case string(multilock.Auto):
		case string(multilock.Alone):
			alone = append(alone, c.Pod)
		default:
			away = append(away, fmt.Sprintf("%s (%s)", c.Pod, c.Mode))
		}
	}
	if len(away) > 0 {
		r.warn("candidates that do not go beyond phase dual: %s: run them in mode auto", strings.Join(away, ", "))
	}
	if len(alone) > 0 && !r.leaseAlone() {
		r.warn("candidates in mode lease, which stay back in phase %s: %s: run them in mode auto", r.Phase, strings.Join(alone, ", "))
	}
	switch {
	case len(running) == 0 && r.Phase != "":
		r.problem("no candidate with a presence in mode auto or dual runs: nobody follows the phase")
	case len(able) == 1:
		r.warn("there is one candidate only: nobody takes over from it")
	case len(able) > 1 && len(zones) == 1 && !zones[""]:
		r.warn("all %d candidates are in zone %s: nobody takes over when that zone dies", len(able), able[0].Zone)
	case zones[""]:
		r.warn("of some candidates the zone is not known")
	}
}

// unfollowed says why the candidates have not followed the phase; nil if they
// have. idle says that the Lease has not been renewed for its duration.
func (r *Report) unfollowed(idle bool) []string {
	cm, h := r.ConfigMap, r.holder()
	ours := cm.Kind == ownerref.Shield || cm.Kind == ownerref.Sealed
	vacant := r.Lease.Holder == "" || idle
	var done bool
	why := ""
	switch {
	case r.legacy.Elected:
		done, why = r.recordFollowed(vacant)
	case r.Phase == Legacy:
		done, why = !ours && vacant, "the ConfigMap is still "+string(cm.Kind)
		if !vacant {
			why = r.Lease.Holder + " still holds the Lease"
		}
	case r.Phase == Dual:
		done, why = cm.Kind == ownerref.Shield && cm.Armed && h != nil && h.Shields, r.undone("an armed shield with the leader among its owners")
	case r.Phase == Sealed:
		done, why = cm.Kind == ownerref.Sealed && cm.Armed, r.undone("sealed")
	case r.Phase == Clean:
		done, why = cm.Kind != "" && !ours && cm.Kind != ownerref.Legacy, r.undone("gone")
	default:
		why = "no phase is on record"
	}
	same := record.Stage{Phase: r.Lease.Phase, Step: r.Lease.Step} == r.stage()
	switch {
	case done && same:
		return nil
	case done:
		why = fmt.Sprintf("the Lease does not say phase %s yet", r.Phase)
	}
	return slices.Concat([]string{why}, r.Problems, r.waiting(vacant))
}

func (r *Report) undone(want string) string {
	return fmt.Sprintf("the ConfigMap is %s, not yet %s", r.ConfigMap.Kind, want)
}

// waiting says what the holder of the Lease waits for.
func (r *Report) waiting(vacant bool) []string {
	switch h := r.holder(); {
	case vacant && r.Phase != Legacy && !r.electorLeads():
		return []string{"nobody holds the Lease, whose holder does the work"}
	case h == nil && !vacant:
		return []string{r.Lease.Holder + " holds the Lease and does not take part in the migration"}
	case h != nil && h.Waiting != "":
		return []string{h.Pod + " waits: " + h.Waiting}
	case r.Phase == Sealed && len(r.ConfigMap.Presumed) > 0:
		return []string{"legacy pods that are presumed gone: " + strings.Join(r.ConfigMap.Presumed, ", ")}
	}
	return nil
}
