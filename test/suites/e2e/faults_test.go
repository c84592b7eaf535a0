// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
)

func TestFaultsAreToldAndNeverMakeTwoLeaders(t *testing.T) {
	g := newGround(t, harmless, "faults")
	atOnce(t, map[string]func(*testing.T, *ground){
		"a missing verb is named and waited for": aMissingVerb,
		"what looks like it is no missing verb":  lookalikes,
		"garbage that nobody holds":              unheldGarbage,
	}, func(t *testing.T, run func(*testing.T, *ground)) { run(t, g) })
}

var verbs = []string{"get", "create", "update", "watch"}

// grant lets the user with the contest's name use its Lease with these verbs,
// in the narrowest Role that the docs of package lease allow, and with no
// others.
func (c *contest) grant(verbs ...string) {
	c.t.Helper()
	leases := []string{"leases"}
	rules := []rbacv1.PolicyRule{rule("coordination.k8s.io", leases, without(verbs, "create"), c.name)}
	if slices.Contains(verbs, "create") {
		rules = append(rules, rule("coordination.k8s.io", leases, []string{"create"}))
	}
	allow(c.t, c.client, c.namespace, c.name, user(c.name), rules...)
}

func without(all []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(v string) bool { return v == one })
}

// asUser makes a candidate the user with the contest's name.
func (c *contest) asUser(cfg *rest.Config) { cfg.Impersonate.UserName = c.name }

// missing is what a candidate reports if it lacks a verb.
func (c *contest) missing(verb string) string {
	return fmt.Sprintf("lease %s/%s: %s: needs verb %q on leases.coordination.k8s.io in namespace %q (grant it in a Role",
		c.namespace, c.name, verb, verb, c.namespace)
}

func aMissingVerb(t *testing.T, g *ground) {
	type row struct {
		verb   string
		exists bool // the Lease exists, held by nobody
		terms  int  // before the verb is granted
	}
	atOnce(t, map[string]row{
		"no get":           {verb: "get"},
		"no create":        {verb: "create"},
		"no update":        {verb: "update", exists: true},
		"no update, later": {verb: "update", terms: 1}, // it cannot renew what it created
	}, func(t *testing.T, r row) {
		c := newContest(t, g.Testbed, g.namespace, nameOf(t))
		c.grant(without(verbs, r.verb)...)
		if r.exists {
			c.create(`{}`)
		}
		a := c.enter("a", c.asUser)
		if problem := a.complains(c.missing(r.verb)); !errors.Is(problem, locks.ErrForbidden) || errors.Is(problem, locks.ErrNoAPI) {
			t.Errorf("%v: want ErrForbidden and no other", problem)
		}
		if r.terms > 0 {
			if cause := a.tells("its end", is(status.ChangeStopping)).Cause; !errors.Is(cause, election.ErrLost) {
				t.Errorf("the term ended with %v", cause)
			}
		}
		if n := c.terms(); n != r.terms {
			t.Errorf("%d terms without the verb, want %d", n, r.terms)
		}
		c.grant(verbs...)
		c.sees("held with a token", noted(a.leads()))
		a.isWell()
	})
}

// lookalikes provokes answers 404 and 403 that neither a permission nor another
// API mends.
func lookalikes(t *testing.T, g *ground) {
	never := func(t *testing.T, c *contest, problem error) {
		if errors.Is(problem, locks.ErrForbidden) || errors.Is(problem, locks.ErrNoAPI) || c.terms() > 0 {
			t.Errorf("%d terms, and the problem is %v", c.terms(), problem)
		}
	}
	atOnce(t, map[string]func(*testing.T, *contest){
		"no namespace": func(t *testing.T, c *contest) {
			a := c.enter("a")
			never(t, c, a.complains(fmt.Sprintf("namespace %q does not exist: create it", c.namespace)))
			makeNamespace(t, c.client, metav1.ObjectMeta{Name: c.namespace})
			a.leads()
			a.isWell()
		},
		"namespace going": func(t *testing.T, c *contest) {
			makeNamespace(t, c.client, metav1.ObjectMeta{Name: c.namespace})
			must(t, c.client.CoreV1().Namespaces().Delete(t.Context(), c.namespace, metav1.DeleteOptions{}))
			never(t, c, c.enter("a").complains(fmt.Sprintf("namespace %q is being deleted", c.namespace)))
		},
	}, func(t *testing.T, run func(*testing.T, *contest)) {
		run(t, newContest(t, g.Testbed, g.named(nameOf(t)), "lock"))
	})
}

// leaseJSON is a Lease with what is in that spec.
func leaseJSON(spec string) string { return `{"spec":{` + spec + `}}` }

// unheldGarbage is what a server takes in a spec. Chaos garbles Leases that are held.
func unheldGarbage(t *testing.T, g *ground) {
	type row struct {
		lease string
		wait  time.Duration // from the first sight of the Lease until a candidate may lead
	}
	const ghosts, longAgo = `"holderIdentity":"ghost","leaseDurationSeconds":1`, `"renewTime":"2026-01-01T00:00:00.000000Z"`
	atOnce(t, map[string]row{
		"nothing at all":           {`{}`, 0},
		"emptied by a hand":        {leaseJSON(`"holderIdentity":null,"leaseDurationSeconds":5,` + longAgo), 5 * time.Second},
		"empty holder":             {leaseJSON(`"holderIdentity":"","leaseDurationSeconds":60`), 0},
		"renewed in a far future":  {leaseJSON(ghosts + `,"renewTime":"9999-12-31T23:59:59.999999Z"`), time.Second},
		"renewed before all time":  {leaseJSON(ghosts + `,"renewTime":"0001-01-01T00:00:00.000000Z"`), time.Second},
		"transitions at their end": {leaseJSON(ghosts + `,"leaseTransitions":2147483647`), time.Second},
		"an identity of a kilobyte": {
			leaseJSON(`"holderIdentity":"` + strings.Repeat("ghost", 300) + `","leaseDurationSeconds":1`), time.Second,
		},
	}, func(t *testing.T, r row) {
		c := newContest(t, g.Testbed, g.namespace, nameOf(t))
		c.create(r.lease)
		began := time.Now()
		c.enter("a")
		c.enter("b")
		c.sees("held", func(l *coordinationv1.Lease) bool { return holder(l) == "a" || holder(l) == "b" })
		term := c.term(0)
		c.sees("held with a token", noted(term))
		took := term.Began.Sub(began)
		if t.Logf("led after %v, the law says %v", took, r.wait); took < r.wait {
			t.Errorf("led after %v, before the %v that the law says", took, r.wait)
		}
	})
}
