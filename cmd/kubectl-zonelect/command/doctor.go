// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/doctor"
	"github.com/zonelect/zonelect/internal/inspect"
)

const doctorLong = `The command checks the lock, its candidates, their Deployment and their service accounts. It only
reads. Without LOCK it checks the locks of the namespace, 50 at most. Before the operator is installed,
--service-account names the account whose rights it checks.

Each check gives a line. "->" says what to do.
  ok       all is well
  note     worth knowing; or it could not be checked, and why
  warning  it may become a problem, or made one worse
  problem  nobody can lead, or only much later; the exit code is 1

Go on with https://github.com/zonelect/zonelect/blob/main/docs/operate.md. ClusterRole
zonelect-doctor grants the rights. With fewer rights, a note says what is not known.`

const doctorExample = `  kubectl zonelect doctor my-operator          # why does nobody lead?
  kubectl zonelect doctor -n metal3-system     # all locks of a namespace
  kubectl zonelect doctor my-operator -n metal3-system --service-account my-operator   # before it is installed
  kubectl zonelect doctor my-operator -o json | jq '.findings[] | select(.result == "problem")'`

// Diagnosis is what doctor found. It is printed, and never stored as such.
type Diagnosis struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Problems int              `json:"problems"`
	Warnings int              `json:"warnings"`
	Findings []doctor.Finding `json:"findings"`
}

// DeepCopyObject makes a Diagnosis a runtime.Object, as that of a LockStatus.
func (d *Diagnosis) DeepCopyObject() runtime.Object { c := *d; return &c }

// doctorCommand is one call of doctor.
type doctorCommand struct {
	env     *environment
	printer printer
	cluster cluster

	observe    time.Duration
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
	c.ValidArgsFunction = cobra.NoFileCompletions
	c.Flags().DurationVar(&d.observe, "observe", 3*time.Second, "How long to watch a lock that looks stale by this machine's clock. 0: trust the clock.")
	c.Flags().StringVar(&d.legacyName, "legacy-name", "", "Name of the legacy lock. Default: the name on the Lease, or else the lock's.")
	c.Flags().StringVar(&d.account, "service-account", "", "The service account of the operator's pods, where no candidate is known.")
	d.printer.addFlags(c)
	return c
}

func (d *doctorCommand) run(ctx context.Context, args []string) error {
	switch {
	case d.observe < 0:
		return usage("--observe=%s must not be negative", d.observe)
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
	diagnosis := Diagnosis{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: "Diagnosis"},
		ObjectMeta: metav1.ObjectMeta{Namespace: d.cluster.namespace},
		Problems:   doctor.Count(found, doctor.Problem), Warnings: doctor.Count(found, doctor.Warning), Findings: found,
	}
	if err := d.print(diagnosis); err != nil || diagnosis.Problems == 0 {
		return err
	}
	return fmt.Errorf("doctor found %s", inspect.Many(diagnosis.Problems, "problem"))
}

// mostLocks is how many locks are checked without LOCK: each takes some requests.
const mostLocks = 50

// diagnose reads the locks, and makes all checks of each.
func (d *doctorCommand) diagnose(ctx context.Context, args []string) ([]doctor.Finding, error) {
	locks, beyond, err := d.locks(ctx, args)
	if err != nil {
		return nil, err
	}
	var found []doctor.Finding
	for _, l := range locks {
		found = append(found, l.Check()...)
	}
	return append(found, beyond...), nil
}

// locks reads the locks to check. The findings are about what is not among them.
func (d *doctorCommand) locks(ctx context.Context, args []string) ([]doctor.Lock, []doctor.Finding, error) {
	if len(args) > 0 {
		one, err := d.named(ctx, args[0])
		return []doctor.Lock{one}, nil, err
	}
	all, err := d.cluster.Elections(ctx, d.cluster.namespace)
	if err != nil {
		return nil, nil, err
	}
	var beyond []doctor.Finding
	switch n := len(all) - mostLocks; {
	case len(all) == 0:
		unknown, err := d.cluster.checkNamespace(ctx, "; ")
		if err != nil {
			return nil, nil, err
		}
		beyond = append(beyond, doctor.Finding{Check: "lock", Result: doctor.Warning, Text: "no locks were found in " + d.cluster.scope() + unknown, Hint: "name a lock that no zonelect program uses yet, or look elsewhere: 'kubectl zonelect status -A'"})
	case n > 0:
		all = all[:mostLocks]
		beyond = append(beyond, doctor.Finding{Check: "lock", Result: doctor.Note, Text: fmt.Sprintf("%s more are not checked", inspect.Many(n, "lock")), Hint: "name one of them"})
	}
	return d.locksOf(ctx, all), beyond, nil
}

// named reads one lock. That its Lease cannot be read is a finding, unless there is no
// namespace.
func (d *doctorCommand) named(ctx context.Context, name string) (doctor.Lock, error) {
	found, err := d.cluster.Election(ctx, d.cluster.lock(name))
	if err != nil {
		return doctor.Lock{Election: inspect.Election{NamespacedName: d.cluster.lock(name)}, Unread: d.cluster.role.explained(err)}, nil
	}
	if found.Nothing() {
		unknown, err := d.cluster.checkNamespace(ctx, "")
		if err != nil {
			return doctor.Lock{}, err
		}
		if unknown != "" {
			found.Notes = append(found.Notes, unknown)
		}
	}
	return d.locksOf(ctx, []inspect.Election{found})[0], nil
}

// locksOf reads what surrounds locks.
func (d *doctorCommand) locksOf(ctx context.Context, all []inspect.Election) []doctor.Lock {
	var problems []string
	d.cluster.zones().Find(ctx, all)
	if err := d.surroundings(ctx, all); err != nil {
		problems = append(problems, "not all of the candidates' pods and nodes could be read: "+d.cluster.role.explained(err))
	}
	err := d.cluster.Observe(ctx, all, d.env.now, d.observe)
	now := d.env.now() // what else is read may take longer than a lease
	if err != nil {
		problems = append(problems, "the lock could not be watched: "+d.cluster.role.explained(err))
	}
	locks := make([]doctor.Lock, 0, len(all))
	for _, e := range all {
		e.Notes = append(e.Notes, problems...)
		l := doctor.Lock{Election: e, Now: now, Account: d.account, LegacyPod: d.cluster.legacyPod(ctx, e)}
		if l.Accounts() {
			l.Rights = d.cluster.rightsOf(ctx, l.Needs())
		}
		locks = append(locks, l)
	}
	return locks
}

// surroundings reads the pods and nodes of all candidates at once, because many locks may have
// the same.
func (d *doctorCommand) surroundings(ctx context.Context, all []inspect.Election) error {
	together := inspect.Election{NamespacedName: d.cluster.lock("")}
	for _, e := range all {
		together.Candidates = append(together.Candidates, e.Candidates...)
	}
	err := d.cluster.Surroundings(ctx, &together)
	rest := together.Candidates
	for i := range all {
		e := &all[i]
		n := len(e.Candidates)
		e.Candidates, rest = rest[:n:n], rest[n:]
		e.ZonesWithNodes = together.ZonesWithNodes
		e.Notes = append(e.Notes, together.Notes...)
	}
	return err
}

// print prints the findings: by lock, and then those of the namespace.
func (d *doctorCommand) print(all Diagnosis) error {
	if d.printer.objects != nil {
		return printObject(d.env.streams.Out, d.printer.objects, &all)
	}
	about := "-"
	for _, f := range all.Findings {
		if f.Lock != about {
			about = f.Lock
			if err := say(d.env.streams.Out, "%s\n", d.heading(f.Lock)); err != nil {
				return err
			}
		}
		if err := printFinding(d.env.streams.Out, f); err != nil {
			return err
		}
	}
	return say(d.env.streams.Out, "%s, %s\n", inspect.Many(all.Problems, "problem"), inspect.Many(all.Warnings, "warning"))
}

func (d *doctorCommand) heading(lock string) string {
	if lock == "" {
		return "namespace " + d.cluster.namespace
	}
	return fmt.Sprintf("lock %s in namespace %s", lock, d.cluster.namespace)
}

func printFinding(out io.Writer, f doctor.Finding) error {
	const line = "  %-9s%-13s%s\n"
	err := say(out, line, f.Result, f.Check, f.Text)
	if f.Hint != "" {
		err = errors.Join(err, say(out, line, "", "", "-> "+f.Hint))
	}
	if f.Result != doctor.OK {
		err = errors.Join(err, say(out, line, "", "", "   "+f.Link))
	}
	return err
}
