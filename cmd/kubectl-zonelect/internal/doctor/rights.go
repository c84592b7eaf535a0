// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/inspect"
)

// Right is a permission that candidates need. Its name is empty if it is needed for all names.
type Right struct {
	authorizationv1.ResourceAttributes
	Vital   bool // nobody can lead without it
	Allowed bool
}

// String names the permission as 'kubectl auth can-i' takes it.
func (r Right) String() string {
	return r.Verb + " " + strings.Trim(r.Resource+"."+r.Group, ".") + strings.TrimSuffix("/"+r.Name, "/")
}

// Needs returns the permissions that the candidates need for the lock. create and list count
// for all names: presences are Leases, too. Without these somebody leads, if there is a Lease.
func (l Lock) Needs() []Right {
	var all []Right
	need := func(group, resource, name string, verbs ...string) {
		for _, verb := range verbs {
			r := Right{Vital: true}
			r.Namespace, r.Verb, r.Group, r.Version, r.Resource, r.Name = l.Namespace, verb, group, "v1", resource, name
			if verb == apierror.Create || verb == apierror.List {
				r.Name, r.Vital = "", group == "" || verb == apierror.Create && l.Lease == nil
			}
			all = append(all, r)
		}
	}
	need(apierror.Leases.Group, apierror.Leases.Name, l.Name, apierror.Get, apierror.Update, apierror.Watch, apierror.Create, apierror.List)
	if l.migrating() {
		resource, name, elected := l.object()
		need("", resource, name, apierror.Get, apierror.Create, apierror.Update, apierror.Watch)
		if !elected {
			need("", resource, name, apierror.Delete)
		}
	}
	return all
}

// ServiceAccount is that of the candidates' pods; if none is known, that which the user named, or none.
func (l Lock) ServiceAccount() string {
	for _, c := range inspect.ByZone(inspect.Present(l.Candidates)) {
		if c.ServiceAccount != "" {
			return c.ServiceAccount
		}
	}
	return l.Account
}

// checkRights says what the candidates may not do.
func checkRights(l Lock) []Finding {
	account := l.ServiceAccount()
	if account == "" {
		return nil // check candidates says why
	}
	if l.Rights.Unknown != "" {
		return []Finding{say(Note, "whether the candidates may write the lock is not known: %s", l.Rights.Unknown)}
	}
	result, lacks := Warning, []string(nil)
	for _, r := range l.Rights.Value {
		if r.Allowed {
			continue
		}
		if lacks = append(lacks, r.String()); r.Vital {
			result = Problem
		}
	}
	if len(lacks) == 0 {
		return []Finding{say(OK, "service account %s may do all that the lock needs", account)}
	}
	return []Finding{say(result, "service account %s may not %s", account, strings.Join(lacks, ", ")).do("apply %s", l.grant(l.bases()...))}
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
	lock, _ := l.LegacyLock()
	return lock.Resource, lock.Name, lock.Elected || l.Legacy != nil && l.Legacy.Kind == inspect.ElectionRecord
}
