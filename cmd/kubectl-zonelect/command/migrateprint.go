// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/migrate"
)

// pen writes lines until one fails, which it remembers.
type pen struct {
	w   io.Writer
	err error
}

func (p *pen) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// printPlan prints a plan for people.
func printPlan(w io.Writer, plan migrate.Plan) error {
	p := &pen{w: w}
	p.standing(plan.Report)
	p.step("Next step", plan.Next)
	if len(plan.Checks) > 0 {
		p.line("")
	}
	if p.err == nil {
		p.err = printChecks(w, plan.Checks, nil)
	}
	p.step("Way back", plan.Back)
	return p.err
}

// standing prints where a migration stands.
func (p *pen) standing(r migrate.Report) {
	p.line("Lock:        %s/%s", r.Namespace, r.Lock)
	p.line("Phase:       %s", phaseText(r.Phase))
	p.line("Lease:       %s", leaseText(r.Lease))
	if lock := record.ParseLegacy(r.Legacy); lock.Elected {
		p.line("Record:      %s: %s", inspect.ObjectOf(lock), recordText(lock, r.ConfigMap))
	} else {
		p.line("ConfigMap:   %s", configMapText(r.ConfigMap))
	}
	p.line("Candidates:  %s", candidatesText(r.Candidates))
	p.line("Legacy pods: %s", legacyText(r))
	for _, text := range r.Problems {
		p.line("Problem:     %s", text)
	}
	for _, text := range r.Warnings {
		p.line("Warning:     %s", text)
	}
}

func phaseText(phase migrate.Phase) string { return cmp.Or(string(phase), "<none>") }

func leaseText(l migrate.LeaseReport) string {
	switch {
	case !l.Exists:
		return "absent"
	case l.Holder == "":
		return "held by nobody"
	case l.Zone != "":
		return fmt.Sprintf("held by %s in zone %s", l.Holder, l.Zone)
	default:
		return "held by " + l.Holder
	}
}

func configMapText(c migrate.ConfigMapReport) string {
	text := c.Name + ": " + cmp.Or(string(c.Kind), "not known")
	switch {
	case c.Owner != "":
		text += " lock of pod " + podName(c.Owner)
	case c.Armed:
		text += ", armed"
	case len(c.Presences) > 0:
		text += ", not armed"
	}
	return text
}

// recordText says who holds the election record that is moved.
func recordText(lock record.Legacy, c migrate.ConfigMapReport) string {
	for _, e := range c.Elected {
		if e.Resource == lock.Resource && e.Holder != "" {
			return "held by " + e.Holder
		}
	}
	return "held by nobody"
}

func candidatesText(all []migrate.Candidate) string {
	if len(all) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d (%s)", len(all), byZone(inspect.ByZone(all)))
}

func legacyText(r migrate.Report) string {
	if !r.Counted {
		return "not known"
	}
	var all []string
	for _, p := range r.LegacyPods {
		all = append(all, fmt.Sprintf("%s (%s)", p.Pod, p.State))
	}
	return cmp.Or(strings.Join(all, ", "), "none")
}

// step prints one step; nil is none.
func (p *pen) step(title string, s *migrate.Step) {
	if s == nil {
		return
	}
	p.line("")
	p.line("%s: %s, to phase %s", title, cmp.Or(s.By, "by hand"), s.To)
	p.line("  %s", s.Does)
	p.line("  Worked if: %s", s.Verify)
	p.line("  To go back: %s", s.Return)
}

// printChecks prints the checks of a step, and what to do about those that
// failed.
func printChecks(w io.Writer, checks migrate.Checks, acknowledged []string) error {
	if len(checks) == 0 {
		return nil
	}
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		{Name: "Check", Type: "string"}, {Name: "Result", Type: "string"}, {Name: "Detail", Type: "string"},
	}}
	for _, c := range checks {
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{c.Name, resultOf(c, acknowledged), c.Detail}})
	}
	if err := printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(table, w); err != nil {
		return err
	}
	p := &pen{w: w}
	for _, c := range checks.Failed(acknowledged...) {
		p.line("%s: to do: %s", c.Name, c.ToDo)
		if c.Acknowledgeable {
			p.line("  or, if you know better: --acknowledge %s", c.Name)
		}
	}
	return p.err
}

func resultOf(c migrate.Check, acknowledged []string) string {
	switch {
	case c.OK:
		return "ok"
	case len(migrate.Checks{c}.Failed(acknowledged...)) == 0:
		return "acknowledged"
	default:
		return "FAILED"
	}
}

// count says how many there are of something.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
