// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zonelect/zonelect/election/timing"
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
		return append([]Finding{l.noCandidate()}, l.zones()...)
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
		all = append(all, say(Problem, unfit).do("mend one of them: see above"))
	}
	all = append(all, l.spread(present)...)
	if text := inspect.SeveralWorkloads(present); text != "" && !l.migrating() {
		all = append(all, say(Warning, "%s", text).do("only one of them leads at a time: give each program a lock name of its own, unless they are one program by intent"))
	}
	if len(all) == 0 {
		all = append(all, allWell(present))
	}
	return all
}

// allWell says that nothing is wrong with the candidates, as far as could be read.
func allWell(present []inspect.Candidate) Finding {
	text := inspect.Many(len(present), "candidate")
	switch zones, unknown := inspect.ZonesOf(present); {
	case len(zones) == 0:
		text += ", whose zones are not known"
	case unknown > 0:
		text += fmt.Sprintf(" in %s, and in an unknown one (%d)", inspect.Many(len(zones), "zone"), unknown)
	default:
		text += " in " + inspect.Many(len(zones), "zone")
	}
	if slices.ContainsFunc(present, func(c inspect.Candidate) bool {
		return c.PodState == "" && !c.InNoPod() || c.Node != "" && c.NodeState == ""
	}) {
		return say(Note, "%s, none unhealthy by its own word; whether all their pods and nodes are ready is not known", text)
	}
	return say(OK, "%s, all ready and healthy", text)
}

// noCandidate is the finding of a lock for which nobody announces itself.
func (l Lock) noCandidate() Finding {
	result := Note
	if l.nobodyLeads() {
		result = Problem
	}
	if len(l.Candidates) > 0 {
		return say(result, "the pods of all %d candidates that announced themselves are gone", len(l.Candidates)).do("does the Deployment have replicas, and can its pods be scheduled? %s", l.kubectl("get deployments,pods"))
	}
	if result == Note && l.Lease == nil {
		return say(Note, "no candidate has announced itself, as before a migration")
	}
	return say(result, "no candidate has announced itself").
		do("does the program run? Candidates of client-go, and those without the right to get, list and create leases, cannot be seen")
}

// zones says where candidates could run, of a lock that has none.
func (l Lock) zones() []Finding {
	switch zones := l.ZonesWithNodes; len(zones) {
	case 0:
		return nil
	case 1:
		return []Finding{say(Note, "all nodes that have a zone are in %s: nobody is left to lead if that is lost", zones[0])}
	default:
		return []Finding{say(OK, "there are nodes in %d zones: %s", len(zones), list(zones))}
	}
}

// candidate says what is wrong with one.
func (l Lock) candidate(c inspect.Candidate) []Finding {
	var all []Finding
	if c.PodState != "" && c.PodState != inspect.Ready {
		all = append(all, say(Warning, "the pod of %s is %s", c.Identity, c.PodState).do("%s", l.kubectl("describe pod %s", named(c.Pod, "POD"))))
	}
	if c.NodeState != "" && c.NodeState != inspect.Ready {
		all = append(all, say(Warning, "the node of %s, %s, is %s", c.Identity, c.Node, c.NodeState).do("it cannot take over: 'kubectl describe node %s'", named(c.Node, "NODE")))
	}
	if c.Unhealthy != "" {
		all = append(all, say(Warning, "%s says that it is unhealthy: %s", c.Identity, c.Unhealthy).do("it stays back until its health check passes: see its log"))
	}
	return all
}

// spread says whether candidates are too few or too close together.
func (l Lock) spread(present []inspect.Candidate) []Finding {
	var f inspect.Findings
	f.CheckSpread(present, l.ZonesWithNodes)
	switch one := inspect.OneZone(present); {
	case len(present) == 1:
		advice := "run at least two replicas, in different zones"
		if w := present[0].Workload(); scales(w) {
			advice += " (" + workload{l, w, present}.command("scale", "--replicas=3") + ")"
		}
		if l.lasts() < timing.Patient().LeaseDuration {
			advice += "; if one is what you want, keep its election, and set --leader-elect-timing=patient, which loses no term in an outage of the API of 45s"
		}
		return []Finding{say(Warning, "%s", f.Warnings[0]).do("%s", advice)}
	case one != "" && len(f.Notes) > 0:
		return []Finding{say(Note, "%s", f.Notes[0]).do("only nodes in other zones can change that")}
	case one != "":
		return []Finding{say(Warning, "%s", f.Warnings[0]).do("use topologySpreadConstraints on topology.kubernetes.io/zone, see %s", Page("install.md"))}
	}
	return nil
}

// checkEnvironment says what candidates do not know about themselves.
func checkEnvironment(l Lock) []Finding {
	var all []Finding
	var noNode, noZone []string
	present := inspect.Present(l.Candidates)
	for _, c := range inspect.ByZone(present) {
		switch {
		case c.SaidZone() != "":
		case c.Node == "":
			noNode = append(noNode, c.Identity)
		default:
			noZone = append(noZone, c.Identity)
		}
	}
	if len(noNode) > 0 {
		all = append(all, say(Warning, "these candidates know neither their node nor their zone: %s", list(noNode)).
			do("set NODE_NAME by the downward API (fieldRef spec.nodeName), as tokens name the node only since Kubernetes 1.30; and grant the right to read nodes: %s", l.grant("zone")))
	}
	if len(noZone) > 0 {
		all = append(all, say(Warning, "these candidates do not know their zone: %s", list(noZone)).
			do("grant the right to read nodes (%s), label the nodes with topology.kubernetes.io/zone, or set NODE_ZONE. The candidates ask again: within 30s in their first ten minutes, later within six minutes", l.grant("zone")))
	}
	if f, found := l.holderEnvironment(); found {
		all = append(all, f)
	}
	if len(all) == 0 && len(present) > 0 {
		all = append(all, say(OK, "the candidates know their pods and zones"))
	}
	return all
}

// holderEnvironment says what the holder does not know about itself.
func (l Lock) holderEnvironment() (Finding, bool) {
	r := l.Snapshot().Record
	d, ours := inspect.DetailsOf(r)
	switch {
	case r.Holder == "":
	case !ours:
		return say(Note, "%s holds the lock and is not a zonelect candidate: it has no fencing token, and does not say where it is", r.Holder).do("is it client-go's elector? See %s", Page("adopt.md")), true
	case d.Pod == locks.Pod{}:
		return say(Warning, "%s does not say its pod: nobody can prove it dead", r.Holder).
			do("in a pod, mount the token of the service account, or set POD_NAME (fieldRef metadata.name) and POD_UID (fieldRef metadata.uid) by the downward API"), true
	}
	return Finding{}, false
}

// Right is a permission of a service account that candidates need.
type Right struct {
	Account   string
	Verb      string
	Group     string
	Resource  string
	Name      string // empty if it is needed for all names
	Namespace string
	Without   string // what happens without it; empty if nobody can lead
	Allowed   bool
}

// String names the permission as 'kubectl auth can-i' takes it.
func (r Right) String() string {
	resource := r.Resource
	if r.Group != "" {
		resource += "." + r.Group
	}
	if r.Name != "" {
		resource += "/" + r.Name
	}
	return r.Verb + " " + resource
}

// command is what asks for the permission by hand.
func (r Right) command() string {
	if r.Name != "" {
		r.Name = named(r.Name, "NAME")
	}
	namespace := named(r.Namespace, "NAMESPACE")
	return fmt.Sprintf("kubectl auth can-i %s -n %s --as=system:serviceaccount:%s:%s", r, namespace, namespace, named(r.Account, "SERVICE_ACCOUNT"))
}

// verbs are those of a Lease, with what happens without them. list and create count for all
// names: presences are Leases, too.
var verbs = []struct{ verb, without string }{
	{"get", ""}, {"update", ""}, {"watch", ""},
	{"create", "a candidate cannot announce itself, or create the Lease if it is deleted"},
	{"list", "candidates do not know of each other, so that none goes first"},
}

// leaseRights returns the permissions that a service account needs for a Lease.
func leaseRights(account, namespace, lock string, exists bool) []Right {
	all := make([]Right, 0, len(verbs))
	for _, v := range verbs {
		r := Right{Account: account, Verb: v.verb, Group: "coordination.k8s.io", Resource: "leases", Name: lock, Namespace: namespace, Without: v.without}
		if v.verb == "create" || v.verb == "list" {
			r.Name = ""
		}
		if v.verb == "create" && !exists {
			r.Without = ""
		}
		all = append(all, r)
	}
	return all
}

// Needs returns the permissions that the candidates' service accounts need for the lock. If no
// account is known, it returns those of an account without a name.
func (l Lock) Needs() []Right {
	var all []Right
	for _, account := range l.accounts() {
		all = append(all, leaseRights(account, l.Namespace, l.Name, l.Lease != nil)...)
		for _, verb := range l.legacyVerbs() {
			r := Right{Account: account, Verb: verb, Resource: l.legacyResource(), Name: l.legacyName(), Namespace: l.Namespace}
			if verb == "create" {
				r.Name = ""
			}
			all = append(all, r)
		}
	}
	return all
}

// accounts are the service accounts of the candidates' pods, sorted; if none is known, that which the
// user named, or one without a name.
func (l Lock) accounts() []string {
	var all []string
	for _, c := range inspect.Present(l.Candidates) {
		if c.Part != nil && c.ServiceAccount != "" {
			all = append(all, c.ServiceAccount)
		}
	}
	slices.Sort(all)
	if len(all) == 0 {
		return []string{l.Account}
	}
	return slices.Compact(all)
}

// Accounts reports whether a service account is known.
func (l Lock) Accounts() bool { return l.accounts()[0] != "" }

// checkRights says what the candidates may not do.
func checkRights(l Lock) []Finding {
	if !l.Accounts() {
		return nil // check candidates says why
	}
	needs := l.Needs()
	if l.Rights.Unknown != "" {
		return []Finding{say(Note, "whether the candidates may write the lock is not known: %s", l.Rights.Unknown).do("ask as somebody who may impersonate: %s", needs[1].command())}
	}
	var all []Finding
	for _, r := range l.Rights.Value {
		if !r.Allowed && r.Without != "" {
			all = append(all, say(Warning, "service account %s may not %s: %s", r.Account, r, r.Without).do("apply %s", grant(named(r.Account, "SERVICE_ACCOUNT"), "lease")))
		}
	}
	all = append(all, l.missing()...)
	if len(all) == 0 {
		all = append(all, say(OK, "service account %s may do all that the lock needs", list(l.accounts())))
	}
	return all
}

// missing says, for each service account that can lead nothing, what it may not do.
func (l Lock) missing() []Finding {
	var all []Finding
	for _, account := range l.accounts() {
		var verbs []string
		for _, r := range l.Rights.Value {
			if r.Account == account && !r.Allowed && r.Without == "" {
				verbs = append(verbs, r.String())
			}
		}
		if len(verbs) > 0 {
			all = append(all, say(Problem, "service account %s may not %s", account, strings.Join(verbs, ", ")).
				do("apply %s", grant(named(account, "SERVICE_ACCOUNT"), l.bases()...)))
		}
	}
	return all
}
