// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/audit"
	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/doctor"
	"github.com/zonelect/zonelect/internal/inspect"
)

const auditLong = `Looks at all elections of a namespace, or of the cluster, whoever runs them: programs of client-go,
controller-runtime, Java, Python, Kubernetes itself and zonelect. It watches their Leases for a minute,
and says of each who holds it, what the loss of its leader and of a zone would cost, and what is
wrong with it. It reads, and changes nothing.

A row for each election has:
  ON        what keeps the record: a Lease, client-go's old record on a ConfigMap or Endpoints, or the
            ConfigMap of leader-for-life
  BY        the client that wrote it last
  PERIOD    the time between renewals, as it was seen
  LEASE     for how long others leave it alone
  DEADLINE  RenewDeadline, by the arguments of the holder's pod
  CRASH     for how long nobody leads at worst when the leader's process is killed
  ZONE      the same when the leader's zone is lost
  REPLICAS  the pods of the holder's workload that run, by zone

"?" is behind a range in which the duration lies. ">" is before a duration without a known upper bound.
A range is never a finding. Below the table are the findings: notes, warnings and problems. A
problem is that nobody leads although somebody should, or that two may lead already. "->" is what helps,
which often is not zonelect. The exit code is 1 if there is a problem.

The heartbeats of nodes, the Leases by which API servers and zonelect's candidates announce themselves,
and those that are empty are not elections.

ClusterRole zonelect-audit grants what the command needs to read. With fewer rights, a note says what is
not known.`

const auditExample = `  # All elections of the cluster
  kubectl zonelect audit -A

  # Those of a namespace with long leases, for five minutes
  kubectl zonelect audit -n openshift-operators --for 5m

  # Which operators use leader-for-life
  kubectl zonelect audit -A -o json | jq -r '.elections[] | select(.kind == "leader-for-life").name'`

// Audit is what audit found. It is printed, and never stored as such.
type Audit struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	WatchedMilliseconds int64          `json:"watchedMilliseconds"`
	Problems            int            `json:"problems"`
	Warnings            int            `json:"warnings"`
	Inventory           map[string]int `json:"inventory"` // elections by kind
	LeftOut             audit.LeftOut  `json:"leftOut"`
	// Findings are those about the cluster. Each election has its own.
	Findings  []doctor.Finding `json:"findings,omitempty"`
	Elections []audit.Report   `json:"elections"`
}

// DeepCopyObject makes an Audit a runtime.Object, as that of a LockStatus.
func (a *Audit) DeepCopyObject() runtime.Object { c := *a; return &c }

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
		Short:   "Judge all elections of the cluster, whoever runs them",
		Long:    auditLong,
		Example: auditExample,
		Args:    noArgument,
		RunE:    func(c *cobra.Command, _ []string) error { return failed(a.run(c.Context())) },

		Annotations: roleAudit.marks(),
	}
	c.Flags().BoolVarP(&a.everywhere, "all-namespaces", "A", false, "Look in all namespaces.")
	c.Flags().DurationVar(&a.watch, "for", time.Minute, "How long to watch the Leases. Ctrl-C ends the watching sooner.")
	a.printer.addFlags(c, "wide")
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
	if a.cluster, err = a.env.cluster(roleAudit, a.everywhere); err != nil {
		return err
	}
	if a.cluster.namespace == audit.NodeLeases {
		return usage("namespace %s has the heartbeats of nodes, which are not elections", audit.NodeLeases)
	}
	a.printer.namespaces = a.everywhere
	read, leftOut, err := a.cluster.readElections(ctx, a.env, a.watch)
	if err != nil {
		return err
	}
	reports, general := read.Judge()
	if len(reports) == 0 {
		asked, done := context.WithTimeout(context.WithoutCancel(ctx), listTimeout) // also after Ctrl-C
		defer done()
		unknown, err := a.cluster.checkNamespace(asked, "; ")
		if err != nil {
			return err
		}
		a.env.tell("no elections were found in %s%s\n", a.cluster.scope(), unknown)
	}
	found := Audit{
		TypeMeta:            metav1.TypeMeta{APIVersion: apiVersion, Kind: "Audit"},
		ObjectMeta:          metav1.ObjectMeta{Namespace: a.cluster.namespace},
		WatchedMilliseconds: read.Watched.Milliseconds(),
		Inventory:           map[string]int{}, LeftOut: leftOut, Findings: general, Elections: reports,
	}
	for _, r := range reports {
		found.Inventory[string(r.Kind)]++
		found.Problems += doctor.Count(r.Findings, doctor.Problem)
		found.Warnings += doctor.Count(r.Findings, doctor.Warning)
	}
	err = a.print(found)
	if ctx.Err() != nil {
		a.env.changed = "audit judged what it had seen by then"
		return errors.Join(ctx.Err(), err)
	}
	if err != nil || found.Problems == 0 {
		return err
	}
	return fmt.Errorf("audit found %s", inspect.Many(found.Problems, "problem"))
}

// print prints a row for each election, the findings, and what was counted.
func (a *auditCommand) print(all Audit) error {
	out := a.env.streams.Out
	if a.printer.objects != nil {
		return printObject(out, a.printer.objects, &all)
	}
	err := printTable(out, a.printer.tables, a.columns(), a.rows(all.Elections))
	for _, g := range a.groups(all) {
		err = errors.Join(err, g.print(out))
	}
	if len(all.Elections) > 0 {
		err = errors.Join(err, say(out, "%s in %s of watching: %s\n", inspect.Many(len(all.Elections), "election"), inspect.Rounded(time.Duration(all.WatchedMilliseconds)*time.Millisecond), counted(all.Inventory)))
	}
	if left := leftOut(all.LeftOut, a.everywhere); left != "" {
		err = errors.Join(err, say(out, "left out: %s\n", left))
	}
	return errors.Join(err, say(out, "%s, %s\n", inspect.Many(all.Problems, "problem"), inspect.Many(all.Warnings, "warning")))
}

// counted lists kinds with their numbers, such as "Lease 12".
func counted(kinds map[string]int) string {
	var texts []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		texts = append(texts, fmt.Sprintf("%s %d", kind, kinds[kind]))
	}
	return strings.Join(texts, ", ")
}

// leftOut names what is not an election.
func leftOut(l audit.LeftOut, everywhere bool) string {
	var texts []string
	if everywhere {
		texts = append(texts, "the heartbeats of nodes")
	}
	for _, of := range []struct {
		n    int
		what string
	}{{l.Servers, "identity Lease"}, {l.Candidates, "announcement"}, {l.Empty, "empty Lease"}} {
		if of.n > 0 {
			texts = append(texts, inspect.Many(of.n, of.what))
		}
	}
	return strings.Join(texts, ", ")
}

func (a *auditCommand) columns() []string {
	names := []string{"Name", "On", "Holder", "By", "Period", "Lease", "Deadline", "Crash", "Zone", "Replicas"}
	if a.printer.namespaces {
		names = append([]string{namespaceColumn.name}, names...)
	}
	if a.printer.output == "wide" {
		names = append(names, "Pod", "Workload", "Elector", "Renewals")
	}
	return append(names, "Findings")
}

func (a *auditCommand) rows(all []audit.Report) [][]string {
	rows := make([][]string, 0, len(all))
	for _, r := range all {
		on := string(r.Kind)
		if r.Phase != "" {
			on += " (" + r.Phase + ")"
		}
		holder := r.Holder
		if a.printer.output != "wide" {
			holder = audit.Brief(holder)
		}
		row := []string{r.Name, on, holder, r.Writer, spanCell(r.Period), spanCell(r.Lease), spanCell(r.Deadline), r.Crash.String(), r.LostZone.String(), zonesCell(r.Replicas)}
		if a.printer.namespaces {
			row = append([]string{r.Namespace}, row...)
		}
		if a.printer.output == "wide" {
			row = append(row, r.Pod, r.Workload, string(r.Elector), fmt.Sprint(r.Renewals))
		}
		rows = append(rows, append(row, findingsCell(r.Findings)))
	}
	return rows
}

func spanCell(s *audit.Span) string {
	if s == nil {
		return unknown
	}
	return s.String()
}

// zonesCell counts replicas by zone.
func zonesCell(zones map[string]int) string {
	if len(zones) == 0 {
		return unknown
	}
	var texts []string
	for _, zone := range slices.Sorted(maps.Keys(zones)) {
		texts = append(texts, fmt.Sprintf("%s:%d", zone, zones[zone]))
	}
	return strings.Join(texts, ",")
}

// findingsCell names the checks that found more than a note.
func findingsCell(all []doctor.Finding) string {
	var names []string
	for _, f := range all {
		if f.Result != doctor.Note {
			names = append(names, f.Check)
		}
	}
	return strings.Join(names, ",")
}

// group is what one check found in some elections.
type group struct {
	doctor.Finding
	texts []string
}

// groups are the findings by check: problems first, then warnings and notes.
func (a *auditCommand) groups(all Audit) []*group {
	var groups []*group
	add := func(about string, f doctor.Finding) {
		f.Text = about + f.Text
		i := slices.IndexFunc(groups, func(g *group) bool { return g.Check == f.Check && g.Result == f.Result && g.Hint == f.Hint })
		if i < 0 {
			groups = append(groups, &group{Finding: f, texts: []string{f.Text}})
			return
		}
		groups[i].texts = append(groups[i].texts, f.Text)
	}
	for _, r := range all.Elections {
		name := r.Name
		if a.printer.namespaces {
			name = r.Namespace + "/" + name
		}
		for _, f := range r.Findings {
			add(name+": ", f)
		}
	}
	for _, f := range all.Findings {
		add("", f)
	}
	order := []doctor.Result{doctor.Problem, doctor.Warning, doctor.Note}
	slices.SortStableFunc(groups, func(x, y *group) int {
		return cmp.Or(cmp.Compare(slices.Index(order, x.Result), slices.Index(order, y.Result)), cmp.Compare(x.Check, y.Check))
	})
	return groups
}

// mostOfAKind is how many elections a finding lists. JSON has all.
const mostOfAKind = 20

// print prints a group with its hint and its link, which are the same for all of it.
func (g *group) print(out io.Writer) error {
	const line = "  %-9s%-13s%s\n"
	var err error
	left, check := string(g.Result), g.Check
	for i, text := range g.texts {
		if i == mostOfAKind {
			text = fmt.Sprintf("and %d more, see -o json", len(g.texts)-i)
		}
		err = errors.Join(err, say(out, line, left, check, text))
		if left, check = "", ""; i == mostOfAKind {
			break
		}
	}
	if g.Hint != "" {
		err = errors.Join(err, say(out, line, "", "", "-> "+g.Hint))
	}
	return errors.Join(err, say(out, line, "", "", "   "+g.Link))
}
