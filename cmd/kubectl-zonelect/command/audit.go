// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/audit"
	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/doctor"
	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/sleep"
)

const auditLong = `The command lists the elections of a namespace, or of the cluster, of any software: client-go, Java,
Python, Kubernetes itself, zonelect. It looks twice, --for apart, and changes nothing.

Columns:
  ON        where the record is: a Lease, a ConfigMap or Endpoints (client-go's old record), or the
            ConfigMap of leader-for-life
  BY        the client that wrote it last
  LEASE     how long others wait for a silent holder before they take the lock
  WORKLOAD  what runs the holder's pod

The findings below the table are certain. A problem means that nobody leads although somebody
should; then the exit code is 1. "->" says what to do.

ClusterRole zonelect-audit grants the rights. With fewer rights, a note says what is not known.`

const auditExample = `  kubectl zonelect audit -A                                 # all elections of the cluster
  kubectl zonelect audit -A -o json | jq -r '.elections[] | select(.kind == "leader-for-life").name'`

// auditReport is what audit found, as it is printed.
type auditReport struct {
	Problems int `json:"problems"`
	Warnings int `json:"warnings"`
	// Findings say what could not be read. Each election has its own.
	Findings  []doctor.Finding `json:"findings,omitempty"`
	Elections []audit.Election `json:"elections"`
}

// auditCommand is one call of audit.
type auditCommand struct {
	env     *environment
	printer printer
	cluster cluster

	everywhere bool
	watch      time.Duration
}

func newAudit(env *environment) *cobra.Command {
	a := &auditCommand{env: env}
	c := &cobra.Command{
		Use:     "audit",
		Short:   "List all elections, whatever software runs them",
		Long:    auditLong,
		Example: auditExample,
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.run(c.Context()) },
	}
	c.Flags().BoolVarP(&a.everywhere, "all-namespaces", "A", false, "Look in all namespaces.")
	c.Flags().DurationVar(&a.watch, "for", 20*time.Second, "Time between the two looks.")
	a.printer.addFlags(c)
	return c
}

func (a *auditCommand) run(ctx context.Context) error {
	if a.watch < time.Second || a.watch > 24*time.Hour {
		return usage("--for=%s: use a second to a day", a.watch)
	}
	err := a.printer.complete()
	if err != nil {
		return err
	}
	if a.cluster, err = a.env.cluster("audit", a.everywhere); err != nil {
		return err
	}
	all := auditReport{}
	if all.Elections, all.Findings, err = a.look(ctx); err != nil {
		return err
	}
	if len(all.Elections) == 0 {
		a.env.tell("no elections were found in %s\n", a.cluster.scope())
	}
	for _, e := range all.Elections {
		all.Problems += doctor.Count(e.Findings, doctor.Problem)
		all.Warnings += doctor.Count(e.Findings, doctor.Warning)
	}
	if err = a.print(all); err != nil || all.Problems == 0 {
		return err
	}
	return fmt.Errorf("audit found %s", inspect.Many(all.Problems, "problem"))
}

// look looks twice at all elections, and then at the pods. The findings are about what may not be read.
func (a *auditCommand) look(ctx context.Context) ([]audit.Election, []doctor.Finding, error) {
	before, unread, err := a.elections(ctx)
	if err != nil || len(before) == 0 {
		return []audit.Election{}, unread, err // not null, as JSON
	}
	began := time.Now()
	a.env.tell("looking again at the locks in %s in %s\n", a.cluster.scope(), a.watch)
	if err := sleep.For(ctx, a.watch); err != nil {
		return nil, nil, err
	}
	between := time.Since(began)
	after, unread, err := a.elections(ctx)
	if err != nil {
		return nil, nil, err
	}
	pods := read(a.cluster, func() (map[string]audit.Pod, error) {
		all := map[string]audit.Pod{}
		q := rawapi.Query{Resource: apierror.Pods, Namespace: a.cluster.namespace}
		_, err := rawapi.ListEach(ctx, a.cluster.Core, q, func(e rawapi.Event[*corev1.Pod]) {
			all[e.Object.Namespace+"/"+e.Object.Name] = audit.PodOf(e.Object)
		})
		return all, err
	})
	if pods.Unknown != "" {
		unread = append(unread, audit.Say("rights", doctor.Note, "which pods there are is not known: %s", pods.Unknown))
	}
	return audit.Judge(before, after, between, pods), unread, nil
}

// elections lists all elections. Those on ConfigMaps and Endpoints are read by their metadata.
func (a *auditCommand) elections(ctx context.Context) (all []audit.Election, unread []doctor.Finding, err error) {
	q := rawapi.Query{Resource: apierror.Leases, Namespace: a.cluster.namespace}
	if all, err = collect(ctx, a.cluster.Coordination, q, audit.OfLease); err != nil {
		return nil, nil, err
	}
	kinds := []audit.Kind{audit.OnConfigMap, audit.OnEndpoints}
	for i, resource := range []apierror.Resource{apierror.ConfigMaps, apierror.Endpoints} {
		found := read(a.cluster, func() ([]audit.Election, error) {
			q := rawapi.Query{Resource: resource, Namespace: a.cluster.namespace, Metadata: true}
			return collect(ctx, a.cluster.Core, q, func(o *metav1.PartialObjectMetadata) (audit.Election, bool) {
				return audit.OfObject(kinds[i], o)
			})
		})
		all = append(all, found.Value...)
		if found.Unknown != "" {
			unread = append(unread, audit.Say("rights", doctor.Note, "which locks are on %s is not known: %s", resource.Name, found.Unknown))
		}
	}
	return all, unread, nil
}

// collect lists objects, and keeps something of some of them.
func collect[T any, P rawapi.Type[T], V any](
	ctx context.Context, client rest.Interface, q rawapi.Query, keep func(P) (V, bool),
) (all []V, err error) {
	_, err = rawapi.ListEach(ctx, client, q, func(e rawapi.Event[P]) {
		if v, is := keep(e.Object); is {
			all = append(all, v)
		}
	})
	return all, err
}

// print prints a row for each election, the findings, and what was counted.
func (a *auditCommand) print(all auditReport) error {
	out := a.env.streams.Out
	if a.printer.objects != nil {
		return a.printer.object(out, "Audit", types.NamespacedName{Namespace: a.cluster.namespace}, all)
	}
	names := []string{"Namespace", "Name", "On", "Holder", "By", "Lease", "Workload", "Findings"}
	var rows [][]string
	for _, e := range all.Elections {
		on, lease := string(e.Kind), ""
		if e.Phase != "" {
			on += " (" + e.Phase + ")"
		}
		if e.LeaseDurationSeconds > 0 {
			lease = duration.HumanDuration(time.Duration(e.LeaseDurationSeconds) * time.Second)
		}
		var checks []string
		for _, f := range e.Findings {
			if f.Result != doctor.Note {
				checks = append(checks, f.Check)
			}
		}
		rows = append(rows, []string{e.Namespace, e.Name, on, e.Holder, e.Writer, lease, e.Workload, strings.Join(checks, ",")})
	}
	err := printTable(out, names, rows)
	tellGroups(a, all)
	n, warnings := inspect.Many(len(all.Elections), "election"), inspect.Many(all.Warnings, "warning")
	return errors.Join(err, say(out, "%s, %s, %s\n", n, inspect.Many(all.Problems, "problem"), warnings))
}

// tellGroups prints the findings by check: problems first, then warnings and notes.
func tellGroups(a *auditCommand, all auditReport) {
	groups := map[doctor.Finding][]string{} // without a text
	add := func(about string, f doctor.Finding) {
		text := about + f.Text
		f.Text = ""
		groups[f] = append(groups[f], text)
	}
	for _, e := range all.Elections {
		for _, f := range e.Findings {
			add(e.Namespace+"/"+e.Name+": ", f)
		}
	}
	for _, f := range all.Findings {
		add("", f)
	}
	order := []doctor.Result{doctor.Problem, doctor.Warning, doctor.Note}
	for _, f := range slices.SortedFunc(maps.Keys(groups), func(x, y doctor.Finding) int {
		return cmp.Or(cmp.Compare(slices.Index(order, x.Result), slices.Index(order, y.Result)), cmp.Compare(x.Check, y.Check))
	}) {
		tellFinding(a.env.streams.Out, f, groups[f]...)
	}
}
