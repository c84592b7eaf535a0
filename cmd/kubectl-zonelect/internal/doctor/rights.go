// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/record"
)

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
	return r.Verb + " " + strings.Trim(r.Resource+"."+r.Group, ".") + strings.TrimSuffix("/"+r.Name, "/")
}

// command is what asks for the permission by hand.
func (r Right) command() string {
	if r.Name != "" {
		r.Name = named(r.Name, "NAME")
	}
	namespace := named(r.Namespace, "NAMESPACE")
	return fmt.Sprintf("kubectl auth can-i %s -n %s --as=system:serviceaccount:%s:%s", r, namespace, namespace, named(r.Account, "SERVICE_ACCOUNT"))
}

// without says what happens without a verb on Leases, where somebody can lead nevertheless.
var without = map[string]string{
	apierror.Create: "a candidate cannot announce itself, or create the Lease if it is deleted",
	apierror.List:   "candidates do not know of each other, so that none goes first",
}

// Needs returns the permissions that the candidates' service accounts need for the lock. create and list count
// for all names: presences are Leases, too.
func (l Lock) Needs() []Right {
	var all []Right
	need := func(r Right, verbs ...string) {
		for _, r.Verb = range verbs {
			of := r
			if r.Verb == apierror.Create || r.Verb == apierror.List {
				of.Name = ""
			}
			if r.Group != "" && (r.Verb != apierror.Create || l.Lease != nil) {
				of.Without = without[r.Verb]
			}
			all = append(all, of)
		}
	}
	for _, account := range l.accounts() {
		need(Right{Account: account, Group: apierror.Leases.Group, Resource: apierror.Leases.Name, Name: l.Name, Namespace: l.Namespace},
			apierror.Get, apierror.Update, apierror.Watch, apierror.Create, apierror.List)
		if !l.migrating() {
			continue
		}
		resource, name, elected := l.object()
		old := Right{Account: account, Resource: resource, Name: name, Namespace: l.Namespace}
		need(old, apierror.Get, apierror.Create, apierror.Update, apierror.Watch)
		if !elected {
			need(old, apierror.Delete)
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
	if l.Rights.Unknown != "" {
		return []Finding{say(Note, "whether the candidates may write the lock is not known: %s", l.Rights.Unknown).do("ask as somebody who may impersonate: %s", l.Needs()[1].command())}
	}
	var all []Finding
	missing := map[string][]string{} // by account, that without which it can lead nothing
	for _, r := range l.Rights.Value {
		switch {
		case r.Allowed:
		case r.Without == "":
			missing[r.Account] = append(missing[r.Account], r.String())
		default:
			all = append(all, say(Warning, "service account %s may not %s: %s", r.Account, r, r.Without).do("apply %s", grant(named(r.Account, "SERVICE_ACCOUNT"), "lease")))
		}
	}
	for _, account := range l.accounts() {
		if lacks := missing[account]; len(lacks) > 0 {
			all = append(all, say(Problem, "service account %s may not %s", account, strings.Join(lacks, ", ")).
				do("apply %s", grant(named(account, "SERVICE_ACCOUNT"), l.bases()...)))
		}
	}
	if len(all) == 0 {
		all = append(all, say(OK, "service account %s may do all that the lock needs", list(l.accounts())))
	}
	return all
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

// object returns the resource and the name of the legacy lock, and whether it is an election
// record of client-go.
func (l Lock) object() (resource, name string, elected bool) {
	resource, name = record.ConfigMaps, l.Name
	if l.Lease != nil {
		if noted := record.ReadLegacy(l.Lease.Annotations); noted != (record.Legacy{}) {
			resource, name, elected = noted.Resource, noted.Name, noted.Elected
		}
	}
	return resource, name, elected || l.Legacy != nil && l.Legacy.Kind == inspect.ElectionRecord
}
