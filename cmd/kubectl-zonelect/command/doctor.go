// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/doctor"
	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/locks/ownerref"
)

const doctorLong = `The command checks the lock, its candidates, their Deployment and their service accounts. It only
reads. Without LOCK it checks the locks of the namespace, 50 at most. Before the operator is installed,
--service-account names the account whose rights it checks.

Each check gives a line. "->" says what to do.
  ok       all is well
  note     worth knowing; or it could not be checked, and why
  warning  it may become a problem, or made one worse
  problem  nobody can lead, or only much later; the exit code is 1

The checks:
  lock         who leads, since when; or the state of a lock that nobody leads
  candidates   how many there are, where, and whether they are ready and healthy
  environment  what the candidates do not know about themselves: their pod or zone
  workload     a grace period that is too short to release the lock
  timing       how slow requests may become, or a lease that does not end; no request is measured
  rights       whether the candidates' service accounts may write the lock
  legacy       who has the legacy lock, whether a migration stands still

Go on with https://github.com/zonelect/zonelect/blob/main/docs/operate.md. ClusterRole
zonelect-doctor grants the rights. With fewer rights, a note says what is not known.`

const doctorExample = `  kubectl zonelect doctor my-operator          # why does nobody lead?
  kubectl zonelect doctor -n metal3-system     # all locks of a namespace
  kubectl zonelect doctor my-operator -n metal3-system --service-account my-operator   # before it is installed
  kubectl zonelect doctor my-operator -o json | jq '.findings[] | select(.result == "problem")'`

// diagnosis is what doctor found, as it is printed.
type diagnosis struct {
	Problems int              `json:"problems"`
	Warnings int              `json:"warnings"`
	Findings []doctor.Finding `json:"findings"`
}

// doctorCommand is one call of doctor.
type doctorCommand struct {
	env     *environment
	printer printer
	cluster cluster

	legacyName string
	account    string
}

func newDoctor(env *environment) *cobra.Command {
	d := &doctorCommand{env: env}
	c := &cobra.Command{
		Use:     "doctor [LOCK]",
		Short:   "Find out why nobody leads, or why it took so long",
		Long:    doctorLong,
		Example: doctorExample,
		Args:    atMostOne("LOCK"),
		RunE:    func(c *cobra.Command, args []string) error { return failed(d.run(c.Context(), args)) },

		Annotations: roleDoctor.marks(),
	}
	c.Flags().StringVar(&d.legacyName, "legacy-name", "", "Name of the legacy lock. Default: the name on the Lease, or else the lock's.")
	c.Flags().StringVar(&d.account, "service-account", "", "The service account of the operator's pods, where no candidate is known.")
	d.printer.addFlags(c, false)
	return c
}

func (d *doctorCommand) run(ctx context.Context, args []string) error {
	switch {
	case d.legacyName != "" && len(args) == 0:
		return usage("--legacy-name is for one lock: name it")
	case d.account != "" && len(args) == 0:
		return usage("--service-account is for one lock: name it")
	}
	err := d.printer.complete()
	if err != nil {
		return err
	}
	if d.cluster, err = d.env.cluster(roleDoctor, false); err != nil {
		return err
	}
	d.cluster.LegacyName = d.legacyName
	found, err := d.diagnose(ctx, args)
	if err != nil {
		return err
	}
	for i, f := range found {
		found[i].Link = doctor.Link(f.Check)
	}
	all := diagnosis{doctor.Count(found, doctor.Problem), doctor.Count(found, doctor.Warning), found}
	if err := d.print(all); err != nil || all.Problems == 0 {
		return err
	}
	return fmt.Errorf("doctor found %s", inspect.Many(all.Problems, "problem"))
}

// mostLocks is how many locks are checked without LOCK: each takes some requests.
const mostLocks = 50

// diagnose reads the locks, and makes all checks of each.
func (d *doctorCommand) diagnose(ctx context.Context, args []string) ([]doctor.Finding, error) {
	if len(args) > 0 {
		return d.named(ctx, args[0]), nil
	}
	all, err := d.cluster.Elections(ctx, d.cluster.namespace)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		none := doctor.Finding{Check: "lock", Result: doctor.Warning, Text: "no locks were found in " + d.cluster.scope()}
		none.Hint = "name a lock that no zonelect program uses yet, or look elsewhere: 'kubectl zonelect status -A'"
		return []doctor.Finding{none}, nil
	}
	found := d.check(ctx, all[:min(len(all), mostLocks)])
	if n := len(all) - mostLocks; n > 0 {
		found = append(found, doctor.Finding{Check: "lock", Result: doctor.Note, Text: fmt.Sprintf("%s more are not checked", inspect.Many(n, "lock")), Hint: "name one of them"})
	}
	return found, nil
}

// named checks one lock. That its Lease cannot be read is a finding.
func (d *doctorCommand) named(ctx context.Context, name string) []doctor.Finding {
	found, err := d.cluster.Election(ctx, d.cluster.lock(name))
	if err != nil {
		return doctor.Lock{Election: inspect.Election{NamespacedName: d.cluster.lock(name)}, Unread: d.cluster.role.explained(err)}.Check()
	}
	return d.check(ctx, []inspect.Election{found})
}

// check reads what surrounds locks, and makes all checks of each.
func (d *doctorCommand) check(ctx context.Context, all []inspect.Election) (found []doctor.Finding) {
	for i := range all {
		if err := d.cluster.Surroundings(ctx, &all[i]); err != nil {
			all[i].Notes = append(all[i].Notes, "not all of the candidates' pods and nodes could be read: "+d.cluster.role.explained(err))
		}
	}
	err := d.cluster.Observe(ctx, all, d.env.now)
	now := d.env.now() // what else is read may take longer than a lease
	for _, e := range all {
		if err != nil {
			e.Notes = append(e.Notes, "the lock could not be watched: "+d.cluster.role.explained(err))
		}
		l := doctor.Lock{Election: e, Now: now, Account: d.account, LegacyPod: d.cluster.legacyPod(ctx, e)}
		if l.Accounts() {
			l.Rights = d.cluster.rightsOf(ctx, l.Needs())
		}
		found = append(found, l.Check()...)
	}
	return found
}

// print prints the findings: by lock, and then those of the namespace.
func (d *doctorCommand) print(all diagnosis) error {
	out := d.env.streams.Out
	if d.printer.objects != nil {
		return d.printer.object(out, "Diagnosis", types.NamespacedName{Namespace: d.cluster.namespace}, all)
	}
	about := "-"
	for _, f := range all.Findings {
		if f.Lock != about {
			about = f.Lock
			tell(out, "%s\n", strings.TrimPrefix("lock "+about+" in namespace "+d.cluster.namespace, "lock  in "))
		}
		tellFinding(out, f, f.Text)
	}
	return say(out, "%s, %s\n", inspect.Many(all.Problems, "problem"), inspect.Many(all.Warnings, "warning"))
}

// tellFinding prints a finding, which may have several texts.
func tellFinding(out io.Writer, f doctor.Finding, texts ...string) {
	const line = "  %-9s%-13s%s\n"
	left, check := string(f.Result), f.Check
	for _, text := range texts {
		tell(out, line, left, check, text)
		left, check = "", ""
	}
	if f.Hint != "" {
		tell(out, line, "", "", "-> "+f.Hint)
	}
	if f.Result != doctor.OK {
		tell(out, line, "", "", "   "+f.Link)
	}
}

// read reads something, or says why it cannot be read.
func read[T any](c cluster, do func() (T, error)) doctor.Fact[T] {
	value, err := do()
	if err != nil {
		return doctor.Fact[T]{Unknown: c.role.explained(err)}
	}
	return doctor.Fact[T]{Value: value}
}

// legacyPod reads the state of the pod that holds a leader-for-life lock; empty if none does.
func (c cluster) legacyPod(ctx context.Context, e inspect.Election) doctor.Fact[string] {
	if e.Legacy == nil || e.Legacy.Kind != ownerref.Legacy {
		return doctor.Fact[string]{}
	}
	return read(c, func() (string, error) {
		return c.PodState(ctx, e.Namespace, strings.TrimPrefix(e.Legacy.Holder, "pod/"))
	})
}

// rightsOf asks the API server what others may do.
func (c cluster) rightsOf(ctx context.Context, needs []doctor.Right) doctor.Fact[[]doctor.Right] {
	return read(c, func() ([]doctor.Right, error) {
		for i := range needs {
			var err error
			if needs[i].Allowed, err = c.allowed(ctx, needs[i]); err != nil {
				return nil, err
			}
		}
		return needs, nil
	})
}

// allowed asks for one permission of a service account.
func (c cluster) allowed(ctx context.Context, r doctor.Right) (bool, error) {
	const accounts = "system:serviceaccounts"
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   "system:serviceaccount:" + r.Namespace + ":" + r.Account,
		Groups: []string{accounts, accounts + ":" + r.Namespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: r.Namespace, Verb: r.Verb, Group: r.Group, Version: "v1", Resource: r.Resource, Name: r.Name,
		},
	}}
	answer := &authorizationv1.SubjectAccessReview{}
	err := rawapi.Request(c.authorization, http.MethodPost, apierror.SubjectAccessReviews, "").Body(review).Do(ctx).Into(answer)
	if err == nil && answer.Status.EvaluationError != "" && !answer.Status.Allowed {
		err = errors.New(answer.Status.EvaluationError)
	}
	return answer.Status.Allowed, apierror.Object{Resource: apierror.SubjectAccessReviews}.Explain(apierror.Create, err)
}
