// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/locks"
)

// checkCandidates says whether somebody could lead.
func checkCandidates(l Lock) []Finding {
	if slices.ContainsFunc(l.Notes, func(note string) bool { return strings.HasPrefix(note, inspect.CandidatesUnknown) }) {
		return nil // check lock says so
	}
	present := inspect.Present(l.Candidates)
	if len(present) == 0 {
		return []Finding{l.noCandidate()}
	}
	var all []Finding
	fit := 0
	for _, c := range inspect.ByZone(present) {
		found := l.candidate(c)
		if len(found) == 0 {
			fit++
		}
		all = append(all, found...)
	}
	if fit == 0 && l.nobodyLeads() {
		all = append(all, say(Problem, "no candidate is ready, healthy and on a ready node").do("repair one of them: see above"))
	}
	all = append(all, spread(present)...)
	if len(all) == 0 {
		all = append(all, allWell(present))
	}
	return all
}

// allWell says that nothing is wrong with the candidates, as far as could be read.
func allWell(present []inspect.Candidate) Finding {
	zones, _ := inspect.ZonesOf(present)
	text := inspect.Many(len(present), "candidate") + " in " + inspect.Many(len(zones), "known zone")
	if slices.ContainsFunc(present, func(c inspect.Candidate) bool {
		return c.PodState == "" && !c.InNoPod() || c.Node != "" && c.NodeState == ""
	}) {
		return say(Note, "%s, none of them says that it is unhealthy; whether all their pods and nodes are ready is not known", text)
	}
	return say(OK, "%s, all ready and healthy", text)
}

// noCandidate is the finding of a lock for which nobody announces itself.
func (l Lock) noCandidate() Finding {
	result := Note
	if l.nobodyLeads() {
		result = Problem
	}
	if n := len(l.Candidates); n > 0 {
		return say(result, "the pods of all %d candidates that announced themselves are gone", n).
			do("does the Deployment have replicas, and can its pods be scheduled? %s", l.kubectl("get deployments,pods"))
	}
	return say(result, "no candidate has announced itself").
		do("does the program run? Candidates of client-go, and those without the right to get, list and create leases, cannot be seen")
}

// candidate says what is wrong with one.
func (l Lock) candidate(c inspect.Candidate) []Finding {
	var all []Finding
	if c.PodState != "" && c.PodState != inspect.Ready {
		all = append(all, say(Warning, "the pod of %s is %s", c.Identity, c.PodState).do("%s", l.kubectl("describe pod %s", c.Pod)))
	}
	if c.NodeState != "" && c.NodeState != inspect.Ready {
		all = append(all, say(Warning, "the node of %s, %s, is %s", c.Identity, c.Node, c.NodeState).
			do("it cannot take over: %s", l.kubectl("describe node %s", c.Node)))
	}
	if c.Unhealthy != "" {
		all = append(all, say(Warning, "%s says that it is unhealthy: %s", c.Identity, c.Unhealthy).
			do("it stays back until its health check passes: see its log"))
	}
	return all
}

// spread says whether candidates are too few or too close together.
func spread(present []inspect.Candidate) []Finding {
	zones, unknown := inspect.ZonesOf(present)
	var found Finding
	switch {
	case len(present) == 1:
		found = say(Warning, "only one candidate has announced itself: nobody takes over from %s", present[0].Identity)
	case unknown == 0 && len(zones) == 1:
		found = say(Warning, "all %d candidates are in zone %s: nobody takes over when that zone dies", len(present), zones[0])
	default:
		return nil
	}
	return []Finding{found.do("spread two replicas or more over zones, by topologySpreadConstraints on topology.kubernetes.io/zone (see %s); "+
		"if one replica is what you want, keep its election, and set --leader-elect-timing=patient, "+
		"which loses no term in an outage of the API of 45s",
		Page("install.md"))}
}

// checkEnvironment says what candidates do not know about themselves, and what nobody can see of the holder.
func checkEnvironment(l Lock) []Finding {
	present := inspect.Present(l.Candidates)
	var unaware []string
	for _, c := range inspect.ByZone(present) {
		if c.Zone == "" {
			unaware = append(unaware, c.Identity)
		}
	}
	var all []Finding
	if len(unaware) > 0 {
		all = append(all, say(Warning, "these candidates do not know their zone: %s", strings.Join(unaware, ", ")).
			do("grant the right to read nodes (%s), set NODE_NAME by the downward API (fieldRef spec.nodeName) before Kubernetes 1.30, "+
				"or set NODE_ZONE; and label the nodes with topology.kubernetes.io/zone", l.grant("zone")))
	}
	r := l.Snapshot().Record
	d, ours := inspect.DetailsOf(r)
	switch {
	case r.Holder == "":
	case !ours:
		const foreign = "%s holds the lock and is not a zonelect candidate: it has no fencing token, and does not say where it is"
		all = append(all, say(Note, foreign, r.Holder).do("is it client-go's elector? See %s", Page("adopt.md")))
	case d.Pod == locks.Pod{}:
		all = append(all, say(Warning, "%s does not say which pod it runs in: nobody can prove it dead", r.Holder).
			do("in a pod, mount the token of the service account, or set POD_NAME (fieldRef metadata.name) "+
				"and POD_UID (fieldRef metadata.uid) by the downward API"))
	}
	if len(all) == 0 && len(present) > 0 {
		all = append(all, say(OK, "the candidates know their pods and zones"))
	}
	return all
}

// more is how much longer than the work the pod should have to end, so that a leader can release.
const more = 10 * time.Second

// checkWorkload says whether the kubelet kills a leader before it has stopped. One pod of a workload speaks for all.
func checkWorkload(l Lock) []Finding {
	of := map[string]inspect.Candidate{}
	for _, c := range inspect.ByZone(inspect.Present(l.Candidates)) {
		if c.Runs != nil && of[c.Workload].Runs == nil {
			of[c.Workload] = c
		}
	}
	var all []Finding
	for _, name := range slices.Sorted(maps.Keys(of)) {
		kind, called, _ := strings.Cut(name, " ")
		seconds := ptr.Deref(of[name].Runs.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
		grace, stop := time.Duration(seconds)*time.Second, of[name].StopTimeout
		if stop == 0 || grace > stop || kind != "Deployment" && kind != "StatefulSet" { // anybody may have written another kind
			continue
		}
		const patch = `patch %s %s --patch "spec: {template: {spec: {terminationGracePeriodSeconds: %s}}}"`
		enough := strconv.Itoa(int((stop + more) / time.Second))
		all = append(all, say(Warning, "the pods of %s are killed %v after they are told to end, and their work may take %v to stop: "+
			"a leader that is killed does not hand over", name, grace, stop).do("%s", l.kubectl(patch, strings.ToLower(kind), called, enough)))
	}
	return all
}
