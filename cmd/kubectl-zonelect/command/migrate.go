// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/locks/ownerref"
	"github.com/zonelect/zonelect/migrate"
)

const migrateLong = `The operator keeps running while its lock moves from phase to phase:

  legacy --advance--> dual --advance--> sealed --clean--> clean
         <-rollback--      <-rollback--
                      <------------------rollback-------

To take the first step, roll out the operator's version that uses zonelect in mode auto.
Each other step changes one annotation of the Lease. The running candidates follow it
without a redeploy. An election record ends by time and cannot be sealed: there clean
follows dual. You may interrupt a command at any time.

ClusterRole zonelect-migrate grants the rights.`

// migration is one call of a migrate command.
type migration struct {
	env     *environment
	printer printer

	to, legacyName, selector string
	acknowledge              []string
	dryRun, yes, wait        bool
	timeout                  time.Duration

	name    string
	cluster cluster
	*migrate.Migration
}

// taking takes a step, as the methods of migrate.Migration do.
type taking = func(*migrate.Migration, context.Context, migrate.Options) (migrate.Outcome, error)

func newMigrate(env *environment) *cobra.Command {
	c := &cobra.Command{
		Use:     "migrate",
		Short:   "Move a lock off a leader-for-life ConfigMap or an election record, and back",
		Long:    migrateLong,
		Example: `  kubectl zonelect migrate plan my-operator`,
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newPlan(env),
		newStep(env, "advance", (*migrate.Migration).Advance, "Take the next step: from legacy to dual, or from dual to sealed",
			`  kubectl zonelect migrate advance my-operator --dry-run       # what it would change
  kubectl zonelect migrate advance my-operator --to sealed --yes --timeout 2m     # in a script`),
		newStep(env, "rollback", (*migrate.Migration).Rollback, "Go one step back: from clean or sealed to dual, or from dual to legacy",
			`  kubectl zonelect migrate rollback my-operator --to dual --yes     # before the old version is rolled out`),
		newStep(env, "clean", (*migrate.Migration).Clean,
			"Remove the sealed ConfigMap, or the election record, once nothing can bring legacy pods back",
			`  # Only you know whether anything can bring legacy pods back
  kubectl zonelect migrate clean my-operator --acknowledge no-way-back --yes`),
	)
	return c
}

func newPlan(env *environment) *cobra.Command {
	m := &migration{env: env}
	c := m.command("plan", "Show where a migration stands, what the next step does, and whether it is safe now",
		`  kubectl zonelect migrate plan my-operator
  kubectl zonelect migrate plan my-operator -o json     # for a program`, m.plan)
	m.printer.addFlags(c)
	c.Long = "The command changes nothing. The exit code is 0 even if the step would be refused: in a script, use\nadvance --dry-run."
	return c
}

func newStep(env *environment, by string, take taking, short, example string) *cobra.Command {
	m := &migration{env: env}
	c := m.command(by, short, example, func(ctx context.Context) error { return m.step(ctx, by, take) })
	c.Long = `The command refuses a step that is not safe now (exit code 3), and says what to do. It takes a step only
with --yes, and waits until the candidates have followed. After --timeout it fails, but the phase
stays, and the candidates may still follow.`
	f := c.Flags()
	if by != "clean" {
		f.StringVar(&m.to, "to", "", "The phase to go to. The command refuses a step to any other phase.")
	}
	f.BoolVar(&m.dryRun, "dry-run", false, dryRunUsage)
	f.BoolVarP(&m.yes, "yes", "y", false, "Take the step. Without it, the command checks the step, and refuses it.")
	f.BoolVar(&m.wait, "wait", true, "Wait until the candidates have followed.")
	f.DurationVar(&m.timeout, "timeout", 2*time.Minute, "How long to wait.")
	f.StringSliceVar(&m.acknowledge, "acknowledge", nil, "Checks to override: candidates, leader, legacy-pods, record, selector, "+
		"no-way-back. Each check says whether it can be. clean always needs no-way-back.")
	return c
}

// command returns a command with everything that all migrate commands share.
func (m *migration) command(verb, short, example string, do func(context.Context) error) *cobra.Command {
	c := &cobra.Command{
		Use: verb + " LOCK", Short: short, Example: example,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := m.connect(args[0]); err != nil {
				return err
			}
			return do(c.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&m.legacyName, "legacy-name", "", "Name of the legacy object. Default: the name on the Lease, or else the lock's name.")
	f.StringVarP(&m.selector, "selector", "l", "", "Label selector of the operator's pods, old and new. "+
		"Default: that of the workload of a candidate or of the legacy leader.")
	return c
}

func (m *migration) connect(name string) (err error) {
	m.name = name
	if m.cluster, err = m.env.cluster("migrate", false); err != nil {
		return err
	}
	m.Migration, err = migrate.New(migrate.Config{
		Core: m.cluster.core, Coordination: m.cluster.coordination, Apps: m.cluster.apps,
		Namespace: m.cluster.namespace, Lock: m.cluster.lock(name).Name, LegacyName: m.legacyName, Selector: m.selector,
	})
	return err
}

// waits says what a preflight waits for if that takes long. Call done when it is over.
func (m *migration) waits() (done func() bool) {
	return m.env.waiting("waiting up to 12s for heartbeats of kubelets\n")
}

func (m *migration) plan(ctx context.Context) error {
	if err := m.printer.complete(); err != nil {
		return err
	}
	defer m.waits()()
	plan, err := m.Plan(ctx)
	if err != nil {
		return err
	}
	if m.printer.objects != nil {
		return m.printer.object(m.env.streams.Out, "MigrationPlan", m.cluster.lock(m.name), plan)
	}
	return printPlan(m.env.streams.Out, plan)
}

// step checks a step, takes it if it may, and waits.
func (m *migration) step(ctx context.Context, by string, take taking) error {
	unasked := !m.yes && !m.dryRun
	m.dryRun = m.dryRun || unasked
	said := m.waits()
	o := migrate.Options{To: migrate.Phase(m.to), DryRun: m.dryRun, Acknowledge: m.acknowledge}
	out, err := take(m.Migration, ctx, o)
	said()
	err = m.report(by, out, err)
	switch {
	case err == nil && unasked:
		this := "--yes"
		if by != "clean" { // else another person's step may come first
			this = fmt.Sprintf("--to %s --yes", out.To)
		}
		return refused("%s takes the step; nothing was changed", this)
	case err != nil || m.dryRun || !m.wait:
		return err
	}
	return m.await(ctx, out)
}

// report prints the result of a step, and returns the command's error.
func (m *migration) report(by string, out migrate.Outcome, err error) error {
	var refusal *migrate.RefusedError
	if err != nil && !errors.As(err, &refusal) {
		return err
	}
	stdout := m.env.streams.Out
	if refusal != nil || m.dryRun {
		if err := printChecks(stdout, out.Checks, m.acknowledge); err != nil {
			return err
		}
	}
	switch {
	case refusal != nil:
		return refused("%s of lock %s from phase %s is refused: %s failed; nothing was changed",
			by, m.name, phaseText(out.From), inspect.Many(len(refusal.Failed), "check"))
	case m.dryRun:
		return say(stdout, "lock %s could go from phase %s to %s (dry run)\n", m.name, phaseText(out.From), out.To)
	}
	return say(stdout, "lock %s went from phase %s to %s\n", m.name, phaseText(out.From), out.To)
}

// await waits until the candidates have followed.
func (m *migration) await(ctx context.Context, out migrate.Outcome) error {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	_, err := m.Await(ctx, func(why []string) { m.env.tell("waiting: %s\n", strings.Join(why, "; ")) })
	if err != nil {
		return fmt.Errorf("%w; phase %s stays on record, and they may still follow: see 'kubectl zonelect migrate plan %s -n %s'",
			err, out.To, m.name, m.cluster.namespace)
	}
	m.env.tell("the candidates have followed\n")
	return nil
}

// printPlan prints a plan for people.
func printPlan(out io.Writer, plan migrate.Plan) error {
	r := plan.Report
	line := func(about, text string) { tell(out, "%-13s%s\n", about+":", text) }
	line("Lock", r.Namespace+"/"+r.Lock)
	phase := r.Phase
	if phase == "" && r.Legacy.Kind == ownerref.Legacy {
		phase = migrate.Legacy // as in status: the migration has not begun
	}
	line("Phase", phaseText(phase))
	lease := "absent"
	if l := r.Lease; l != nil {
		lease = "held by " + cmp.Or(l.String(), "nobody")
	}
	line("Lease", lease)
	line("Legacy lock", lockText(r.Legacy))
	line("Candidates", cmp.Or(byZone(inspect.ByZone(r.Candidates)), "none"))
	line("Legacy pods", podsText(r))
	for _, text := range r.Problems {
		line("Problem", text)
	}
	printStep(out, "Next step", plan.Next)
	if len(plan.Checks) > 0 {
		tell(out, "\n")
	}
	err := printChecks(out, plan.Checks, nil)
	printStep(out, "Way back", plan.Back)
	return err
}

func phaseText(phase migrate.Phase) string { return cmp.Or(string(phase), none) }

func lockText(l inspect.Legacy) string {
	text := inspect.ObjectOf(l.Lock) + ": " + cmp.Or(string(l.Kind), "not known")
	if l.Holder != "" {
		text += ", held by " + l.Holder
	}
	if l.Armed {
		text += ", armed"
	}
	return text
}

func podsText(r migrate.Report) string {
	if !r.Counted {
		return "not known"
	}
	var all []string
	for _, p := range r.LegacyPods {
		all = append(all, fmt.Sprintf("%s (%s)", p.Pod, p.State))
	}
	return cmp.Or(strings.Join(all, ", "), "none")
}

// printStep says what one step does; nil means no step.
func printStep(w io.Writer, title string, s *migrate.Step) {
	if s != nil {
		tell(w, "\n%s: %s, to phase %s\n  %s\n", title, cmp.Or(s.By, "by hand"), s.To, s.Does)
	}
}

// printChecks prints the checks of a step, and what to do about those that
// failed.
func printChecks(w io.Writer, checks []migrate.Check, acknowledged []string) error {
	var rows [][]string
	for _, c := range checks {
		result := "FAILED"
		if c.OK {
			result = "ok"
		} else if c.Passes(acknowledged...) {
			result = "acknowledged"
		}
		rows = append(rows, []string{c.Name, result, c.Detail})
	}
	err := printTable(w, []string{"Check", "Result", "Detail"}, rows)
	for _, c := range checks {
		if c.Passes(acknowledged...) {
			continue
		}
		tell(w, "%s: to do: %s\n", c.Name, c.ToDo)
		if c.Acknowledgeable {
			tell(w, "  or, to override this check: --acknowledge %s\n", c.Name)
		}
	}
	return err
}
