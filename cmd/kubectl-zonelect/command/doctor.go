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
reads. Without LOCK it checks all locks of the namespace. Before the operator is installed,
--service-account names the account whose rights it checks.

Each check prints a line. "->" says what to do. A note is worth knowing, or says what could not be checked. A
problem means that nobody can lead, or only much later; then the exit code is 1. The checks:
  lock         who leads, since when; or the state of a lock that nobody leads
  candidates   how many there are, where, and whether they are ready and healthy
  environment  what the candidates do not know about themselves: their pod or zone
  workload     a grace period that is too short to release the lock
  timing       how slow requests may become, or a lease that does not end; no request is measured
  rights       whether the candidates' service accounts may write the lock
  legacy       who has the legacy lock, and what candidates wait for

What to do next: https://github.com/zonelect/zonelect/blob/main/docs/operate.md. ClusterRole
zonelect-doctor grants the rights. With fewer rights, a note says what is not known.`

const doctorExample = `  kubectl zonelect doctor my-operator          # why does nobody lead?
  kubectl zonelect doctor -n metal3-system     # all locks of a namespace
  kubectl zonelect doctor my-operator --service-account my-operator   # before it is installed
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

	account string
}

func newDoctor(env *environment) *cobra.Command {
	d := &doctorCommand{env: env}
	c := &cobra.Command{
		Use:     "doctor [LOCK]",
		Short:   "Find out why nobody leads, or why it took so long",
		Long:    doctorLong,
		Example: doctorExample,
		Args:    cobra.MaximumNArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return d.run(c.Context(), args) },
	}
	c.Flags().StringVar(&d.account, "service-account", "", "The service account of the operator's pods, if no candidate runs yet.")
	d.printer.addFlags(c)
	return c
}

func (d *doctorCommand) run(ctx context.Context, args []string) error {
	if len(args) == 0 && d.account != "" {
		return usage("--service-account is for one lock: name it")
	}
	err := d.printer.complete()
	if err != nil {
		return err
	}
	if d.cluster, err = d.env.cluster("doctor", false); err != nil {
		return err
	}
	all := diagnosis{}
	if all.Findings, err = d.diagnose(ctx, args); err != nil {
		return err
	}
	all.Problems, all.Warnings = doctor.Count(all.Findings, doctor.Problem), doctor.Count(all.Findings, doctor.Warning)
	if err = d.print(all); err != nil || all.Problems == 0 {
		return err
	}
	return fmt.Errorf("doctor found %s", inspect.Many(all.Problems, "problem"))
}

// diagnose reads the locks and what surrounds them, and makes all checks of each.
func (d *doctorCommand) diagnose(ctx context.Context, args []string) (found []doctor.Finding, err error) {
	all := make([]inspect.Election, len(args))
	if len(args) > 0 {
		all[0], err = d.cluster.Election(ctx, d.cluster.lock(args[0]))
	} else {
		all, err = d.cluster.Elections(ctx, d.cluster.namespace)
	}
	for i := range all {
		if err == nil {
			err = d.cluster.Surroundings(ctx, &all[i])
		}
	}
	if err == nil {
		err = d.cluster.Observe(ctx, all, d.env.now)
	}
	if err != nil {
		return nil, err
	}
	found = []doctor.Finding{} // for programs
	now := d.env.now()         // what else is read may take longer than a lease
	for _, e := range all {
		l := doctor.Lock{Election: e, Now: now, Account: d.account, LegacyPod: d.cluster.legacyPod(ctx, e)}
		if account := l.ServiceAccount(); account != "" {
			l.Rights = d.cluster.rightsOf(ctx, account, l)
		}
		found = append(found, l.Check()...)
	}
	if len(all) == 0 {
		d.env.tell(noLocks, d.cluster.scope())
	}
	return found, nil
}

// print prints the findings by lock.
func (d *doctorCommand) print(all diagnosis) error {
	out := d.env.streams.Out
	if d.printer.objects != nil {
		return d.printer.object(out, "Diagnosis", types.NamespacedName{Namespace: d.cluster.namespace}, all)
	}
	about := ""
	for _, f := range all.Findings {
		if f.Lock != about {
			about = f.Lock
			tell(out, "lock %s in namespace %s\n", about, d.cluster.namespace)
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

// rightsOf asks the API server what a service account may do of what a lock needs.
func (c cluster) rightsOf(ctx context.Context, account string, l doctor.Lock) doctor.Fact[[]doctor.Right] {
	return read(c, func() ([]doctor.Right, error) {
		needs := l.Needs()
		for i := range needs {
			const accounts = "system:serviceaccounts"
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User:               "system:serviceaccount:" + l.Namespace + ":" + account,
				Groups:             []string{accounts, accounts + ":" + l.Namespace, "system:authenticated"},
				ResourceAttributes: &needs[i].ResourceAttributes,
			}}
			answer := &authorizationv1.SubjectAccessReview{}
			err := rawapi.Request(c.authorization, http.MethodPost, apierror.SubjectAccessReviews, "").Body(review).Do(ctx).Into(answer)
			if err == nil && answer.Status.EvaluationError != "" && !answer.Status.Allowed {
				err = errors.New(answer.Status.EvaluationError)
			}
			if err != nil {
				return nil, apierror.Object{Resource: apierror.SubjectAccessReviews}.Explain(apierror.Create, err)
			}
			needs[i].Allowed = answer.Status.Allowed
		}
		return needs, nil
	})
}
