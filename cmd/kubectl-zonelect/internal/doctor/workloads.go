// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"maps"
	"slices"

	"github.com/zonelect/zonelect/internal/inspect"
)

// workloads says whether several workloads campaign for the lock. In a migration one may replace the
// other.
func (l Lock) workloads(present []inspect.Candidate) []Finding {
	text := inspect.SeveralWorkloads(present)
	if text == "" {
		return nil
	}
	result := Warning
	if l.migrating() {
		result = Note
	}
	return []Finding{say(result, "%s", text).do("only one of them leads at a time: give each program a lock name of its own, unless they are one program by intent, or one replaces the other")}
}

// checkName says whether the name of the legacy lock may be wrong.
func checkName(l Lock) []Finding {
	text, likely := l.Misnamed()
	if text == "" {
		return nil
	}
	result := Note
	if likely {
		result = Warning
	}
	return []Finding{say(result, "%s", text).
		do("%s shows by which name old pods lead, while they run; the candidates' is that of the Lease, or --leader-elect-legacy-name",
			l.kubectl("get configmaps -o custom-columns=NAME:.metadata.name,OWNER:.metadata.ownerReferences[*].name"))}
}

// Split says which workloads have pods that campaign for different locks: nothing keeps the leaders
// of those apart. Pods that have a lock in common may have others besides.
func Split(locks []Lock) []Finding {
	at := map[string]map[string]map[string]bool{} // pods, by workload and lock
	for _, l := range locks {
		for _, c := range l.Candidates {
			of := c.Workload()
			if of == "" {
				continue
			}
			if at[of] == nil {
				at[of] = map[string]map[string]bool{}
			}
			if at[of][l.Name] == nil {
				at[of][l.Name] = map[string]bool{}
			}
			at[of][l.Name][c.UID] = true
		}
	}
	var all []Finding
	for _, of := range slices.Sorted(maps.Keys(at)) {
		if counted := apart(at[of]); counted != nil {
			f := say(Warning, "pods of %s campaign for different locks: %s: each of these has a leader", of, inspect.Counted(counted)).
				do("does the lock's name come from something that changes, or that differs by pod? In a rollout that changes the name, old and new pods lead side by side until it is over")
			f.Check = "candidates"
			all = append(all, f)
		}
	}
	return all
}

// apart returns the numbers of a workload's pods at those of its locks that have no pod in common
// with some other; nil if there are none.
func apart(at map[string]map[string]bool) map[string]int {
	var counted map[string]int
	for name, pods := range at {
		for _, others := range at {
			if slices.ContainsFunc(slices.Collect(maps.Keys(pods)), func(pod string) bool { return others[pod] }) {
				continue
			}
			if counted == nil {
				counted = map[string]int{}
			}
			counted[name] = len(pods)
		}
	}
	return counted
}
