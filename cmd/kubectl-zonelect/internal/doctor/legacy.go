// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
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

// object returns the resource and the name of the legacy lock, and whether it is an election
// record of client-go.
func (l Lock) object() (resource, name string, elected bool) {
	resource, name = record.ConfigMaps, l.Name
	if l.Lease != nil {
		if noted := record.ReadLegacy(l.Lease.Annotations); noted != (record.Legacy{}) {
			resource, name, elected = noted.Resource, noted.Name, noted.Elected
		}
	}
	if l.Legacy != nil && l.Legacy.Kind == inspect.ElectionRecord {
		elected = true
	}
	return resource, name, elected
}

func (l Lock) legacyResource() string { resource, _, _ := l.object(); return resource }

func (l Lock) legacyName() string { _, name, _ := l.object(); return name }

// legacyVerbs are what candidates need of the legacy lock.
func (l Lock) legacyVerbs() []string {
	switch _, _, elected := l.object(); {
	case !l.migrating():
		return nil
	case elected:
		return []string{"get", "create", "update", "watch"}
	}
	return []string{"get", "create", "update", "delete", "watch"}
}

// bases are those that grant what candidates need.
func (l Lock) bases() []string {
	switch _, _, elected := l.object(); {
	case !l.migrating():
		return []string{"lease"}
	case elected:
		return []string{"lease", "annotation"}
	}
	return []string{"lease", "leader-for-life"}
}

// checkLegacy says whether a legacy lock is in the way, and whether a migration stands still.
func checkLegacy(l Lock) []Finding {
	var all []Finding
	if f, found := l.legacyHolder(); found {
		all = append(all, f)
	}
	var waiting []string
	for _, c := range inspect.ByZone(inspect.Present(l.Candidates)) {
		if c.Waiting != "" {
			waiting = append(waiting, c.Identity+": "+c.Waiting)
		}
	}
	if len(waiting) > 0 {
		all = append(all, say(Warning, "candidates wait: %s", list(waiting)).do("%s says what has to end first", l.plan()))
	}
	if !l.migrating() {
		return all
	}
	if len(all) == 0 && l.Lease != nil {
		all = append(all, say(Note, "the migration is in phase %s, and no candidate waits for anything", l.Phase()).
			do("it goes on when somebody takes the next step: %s says what that needs", l.plan()))
	}
	return all
}

// legacyHolder says what is odd about who has the legacy lock.
func (l Lock) legacyHolder() (Finding, bool) {
	if l.Legacy == nil {
		return Finding{}, false
	}
	object := l.Legacy.Object
	switch {
	case l.Legacy.Lingering != "" && (l.migrating() || l.Legacy.Kind == ownerref.Legacy):
		return say(Warning, "%s: %s", object, l.Legacy.Lingering).
			do("no candidate begins to lead under it: have the finalizers removed, by whoever put them there or by hand (%s)", l.kubectl("edit %s", object)), true
	case l.Legacy.Kind == ownerref.Foreign && l.migrating():
		return say(Warning, "%s is neither a legacy lock nor zonelect's shield", object).do("candidates leave it alone and may wait for it, unless it is empty and has no owner: who made it?"), true
	case l.Legacy.Kind == ownerref.Legacy && l.LegacyPod.Unknown != "":
		return say(Note, "%s belongs to %s; whether that exists is not known: %s", object, l.Legacy.Holder, l.LegacyPod.Unknown), true
	case l.Legacy.Kind == ownerref.Legacy && l.LegacyPod.Value == inspect.Gone:
		return say(Warning, "%s belongs to %s, which does not exist: nobody leads by it, and it keeps legacy pods out", object, l.Legacy.Holder).
			do("the garbage collector deletes it within a minute or so; if not, it is blocked: is an APIService unavailable ('kubectl get apiservices')?"), true
	case l.Legacy.Kind == ownerref.Legacy && l.LegacyPod.Value != inspect.Ready:
		return say(Warning, "%s belongs to %s, which is %s", object, l.Legacy.Holder, orUnknown(l.LegacyPod.Value)).
			do("a leader-for-life lock is free only when its pod is deleted: %s, if its process has ended; if its node is off, taint that instead, see %s", l.kubectl("delete pod %s", named(podOf(l.Legacy.Holder), "POD")), Page("operate.md#a-leader-on-an-unreachable-node")), true
	case l.Legacy.Kind == ownerref.Legacy && (l.Phase() == record.PhaseSealed || l.Phase() == record.PhaseClean):
		return say(Problem, "%s leads by %s, though the migration is in phase %s: it and a candidate may both lead", l.Legacy.Holder, object, l.Phase()).
			do("remove that pod (%s) and whatever starts it; if more may start, roll back once the ConfigMap has gone with it: %s", l.kubectl("delete pod %s", named(podOf(l.Legacy.Holder), "POD")), l.kubectl("zonelect migrate rollback %s", named(l.Name, "LOCK"))), true
	case l.legacyLeads():
		return say(Note, "%s leads by %s, as phase legacy says: candidates stay back", l.Legacy.Holder, object).
			do("candidates lead again after %s, once no such pod is left", l.kubectl("zonelect migrate advance %s", named(l.Name, "LOCK"))), true
	case l.Legacy.Kind == ownerref.Legacy && l.Lease != nil:
		return say(Note, "%s leads by %s", l.Legacy.Holder, object).do("candidates of zonelect take over when that pod is gone: finish the rollout"), true
	case l.Legacy.Kind == inspect.ElectionRecord && !l.of(l.Legacy.Holder):
		return say(Note, "%s names %s, which does not hold the Lease", object, l.Legacy.Holder).do("does a program still use the old lock? %s", l.plan()), true
	}
	return Finding{}, false
}

// of reports whether a holder of the legacy lock is none, or that of the Lease.
func (l Lock) of(holder string) bool {
	return holder == "" || l.Lease == nil || holder == l.Snapshot().Record.Holder
}

func podOf(holder string) string { return strings.TrimPrefix(holder, "pod/") }

func orUnknown(s string) string {
	if s == "" {
		return "in an unknown state"
	}
	return s
}

// legacyLeads reports whether a pod leads by the legacy lock, and the migration says that it should.
func (l Lock) legacyLeads() bool {
	return l.Lease != nil && l.Phase() == record.PhaseLegacy && l.Legacy != nil && l.Legacy.Kind == ownerref.Legacy && l.LegacyPod.Value == inspect.Ready
}
