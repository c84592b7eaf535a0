// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Pre is what was read about a cluster in which nothing is installed yet.
type Pre struct {
	Namespace, Lock string
	Account         string // of the operator's pods

	Absent  Fact[bool]     // the namespace does not exist
	Taken   Fact[string]   // who has, or had, a Lease of the lock's name; empty if there is none
	Minor   Fact[int]      // of the API server's version, 1.N
	Zones   Fact[[]string] // those with nodes
	Outside Fact[bool]     // there are nodes that have no zone
	// Refused is what the API server said to a trial of the Role of the candidates, and of the right
	// to bind it; empty if it accepted.
	Refused string
	Rights  Fact[[]Right] // of the account
}

// Tries reports whether the API server is known to make a trial of a write, and not the write.
func (p Pre) Tries() bool { return p.Minor.Unknown == "" && p.Minor.Value >= oldest }

// Check makes all checks before an installation.
func (p Pre) Check() []Finding {
	return runAll(p, "", []check[Pre]{
		{"name", checkTaken},
		{"version", checkVersion},
		{"zones", checkZones},
		{"install", checkInstall},
		{"rights", checkAccount},
	})
}

// checkTaken says whether somebody uses the lock's name.
func checkTaken(p Pre) []Finding {
	switch {
	case p.Absent.Value:
		return []Finding{say(Warning, "namespace %s does not exist", p.Namespace).do("make it, and ask again what may be written there: 'kubectl create namespace %s'", named(p.Namespace, "NAMESPACE"))}
	case !p.Tries():
		return nil
	case p.Taken.Unknown != "":
		return unread("whether a Lease "+p.Lock+" exists", p.Taken.Unknown)
	case p.Taken.Value != "":
		return []Finding{say(Warning, "there is a Lease %s already, of %s: candidates of both take part in one election", p.Lock, p.Taken.Value).do("look at it: %s", kubectl(p.Namespace, "zonelect doctor %s", named(p.Lock, "LOCK")))}
	}
	return []Finding{say(OK, "no Lease has the name %s", p.Lock)}
}

// The minor versions of Kubernetes 1 from which something works. docs/compatibility.md has the tested ones.
const (
	oldest     = 21 // serves all that zonelect uses
	namesNode  = 30 // a token of a service account names the node, too (KEP-4193)
	copiesZone = 35 // a pod has the label of its node's zone (KEP-4742)
)

// checkVersion says what a candidate can know of itself.
func checkVersion(p Pre) []Finding {
	switch minor := p.Minor.Value; {
	case p.Minor.Unknown != "":
		return unread("the version of the API server", p.Minor.Unknown)
	case minor < oldest:
		return []Finding{say(Problem, "Kubernetes 1.%d is older than 1.%d", minor, oldest).do("upgrade it: see %s", Page("compatibility.md"))}
	case minor < namesNode:
		return []Finding{say(Warning, "Kubernetes 1.%d: the token of a pod does not name its node, and no test has run on it", minor).do("set NODE_NAME in the pods (fieldRef spec.nodeName), and grant the right to read nodes: see %s", Page("install.md#what-a-pod-knows-about-itself"))}
	case minor < copiesZone:
		return []Finding{say(Note, "Kubernetes 1.%d: a pod does not have the label of its zone", minor).do("grant the right to read nodes: %s", grant(named(p.Account, "SERVICE_ACCOUNT"), "zone"))}
	default:
		return []Finding{say(OK, "Kubernetes 1.%d: the token of a pod names its node, and the pod has the label of its zone", minor)}
	}
}

// checkZones says whether a leader can be followed in another zone.
func checkZones(p Pre) []Finding {
	if p.Zones.Unknown != "" {
		return unread("in which zones there are nodes", p.Zones.Unknown)
	}
	var all []Finding
	switch zones := p.Zones.Value; len(zones) {
	case 0:
		all = append(all, say(Note, "no node has the label %s: candidates do not know their zones", corev1.LabelTopologyZone).do("label the nodes, if they stand in more than one"))
	case 1:
		all = append(all, say(Note, "all nodes that have a zone are in %s: nobody is left to lead if that is lost", zones[0]))
	default:
		all = append(all, say(OK, "there are nodes in %d zones: %s", len(zones), list(zones)))
	}
	if p.Outside.Unknown != "" {
		all = append(all, unread("whether all nodes have a zone", p.Outside.Unknown)...)
	}
	if p.Outside.Value && len(p.Zones.Value) > 0 {
		all = append(all, say(Warning, "some nodes have no label %s: candidates there do not know their zone", corev1.LabelTopologyZone).do("find them: 'kubectl get nodes -L %s'", corev1.LabelTopologyZone))
	}
	return all
}

// grant names the base that grants what candidates need.
func (p Pre) grant() string { return grant(named(p.Account, "SERVICE_ACCOUNT"), "lease") }

// checkInstall says whether this user may grant what candidates need.
func checkInstall(p Pre) []Finding {
	switch {
	case !p.Tries():
		return unread("whether you may grant what the candidates need", "no trial is made of writes on an API server that may not know trials")
	case p.Absent.Value:
		return nil
	case p.Refused != "":
		return []Finding{say(Warning, "a trial of granting the rights of the candidates, which changes nothing, was refused: %s", p.Refused).do("have somebody apply it who may: %s", p.grant())}
	}
	return []Finding{say(OK, "you may grant what the candidates need: a trial of the Role was accepted")}
}

// checkAccount says what the service account of the candidates may do already.
func checkAccount(p Pre) []Finding {
	if p.Rights.Unknown != "" {
		return unread("what service account "+p.Account+" may do", p.Rights.Unknown)
	}
	var lacks []string
	for _, r := range p.Rights.Value {
		if !r.Allowed {
			lacks = append(lacks, r.String())
		}
	}
	if len(lacks) == 0 {
		return []Finding{say(OK, "service account %s may do all that the lock needs", p.Account)}
	}
	return []Finding{say(Note, "service account %s may not yet %s", p.Account, strings.Join(lacks, ", ")).do("apply %s", p.grant())}
}
