// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"strings"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// migrating reports whether candidates still need the legacy lock.
func (l Lock) migrating() bool {
	phase := l.Phase()
	return phase == record.PhaseLegacy || phase == record.PhaseDual || phase == record.PhaseSealed
}

// checkLegacy says whether a legacy lock is in the way, and what candidates wait for.
func checkLegacy(l Lock) []Finding {
	var all []Finding
	if l.Legacy != nil {
		all = l.legacyHolder()
	}
	var waiting []string
	for _, c := range inspect.ByZone(inspect.Present(l.Candidates)) {
		if c.Waiting != "" {
			waiting = append(waiting, c.Identity+": "+c.Waiting)
		}
	}
	if len(waiting) > 0 {
		all = append(all, say(Warning, "candidates wait: %s", strings.Join(waiting, ", ")).do("%s says what has to end first", l.plan()))
	}
	return all
}

// legacyHolder says what is odd about who has the legacy lock.
func (l Lock) legacyHolder() []Finding {
	object, holder, phase, legacy := l.Legacy.Object, l.Legacy.Holder, l.Phase(), l.Legacy.Kind == ownerref.Legacy
	kind, name, _ := strings.Cut(object, "/")
	remove := l.kubectl("delete pod %s", strings.TrimPrefix(holder, "pod/"))
	switch {
	case l.Legacy.Lingering != "" && (l.migrating() || legacy):
		return []Finding{say(Warning, "%s: %s", object, l.Legacy.Lingering).
			do("no candidate begins to lead under it: have the finalizers removed, by whoever put them there or by hand (%s)", l.kubectl("edit %s %s", kind, name))}
	case !legacy:
		return nil
	case l.LegacyPod.Unknown != "":
		return []Finding{say(Note, "%s belongs to %s; whether that exists is not known: %s", object, holder, l.LegacyPod.Unknown)}
	case l.LegacyPod.Value == inspect.Gone:
		return []Finding{say(Warning, "%s belongs to %s, which does not exist: nobody leads by it, and it keeps legacy pods out", object, holder).
			do("the garbage collector deletes it within a minute or so; if not, it is blocked: is an APIService unavailable ('kubectl get apiservices')?")}
	case l.LegacyPod.Value != inspect.Ready:
		return []Finding{say(Warning, "%s belongs to %s, which is %s", object, holder, cmp.Or(l.LegacyPod.Value, "in an unknown state")).
			do("a leader-for-life lock is free only when its pod is deleted: %s, if its process has ended; if its node is off, taint that instead, see %s", remove, Page("operate.md#a-leader-on-an-unreachable-node"))}
	case phase == record.PhaseSealed || phase == record.PhaseClean:
		return []Finding{say(Problem, "%s leads by %s, though the migration is in phase %s: it and a candidate may both lead", holder, object, phase).
			do("remove that pod (%s) and whatever starts it; if more may start, roll back once the ConfigMap has gone with it: %s", remove, l.kubectl("zonelect migrate rollback %s", l.Name))}
	}
	return []Finding{say(Note, "%s leads by %s", holder, object).do("%s says when candidates take over", l.plan())}
}

// legacyLeads reports whether a pod leads by the legacy lock, and the migration says that it should.
func (l Lock) legacyLeads() bool {
	return l.Lease != nil && l.Phase() == record.PhaseLegacy && l.Legacy != nil && l.Legacy.Kind == ownerref.Legacy && l.LegacyPod.Value == inspect.Ready
}
