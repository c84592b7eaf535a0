// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/locks/ownerref"
	"github.com/zonelect/zonelect/migrate"
)

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
	for _, text := range r.Warnings {
		line("Warning", text)
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
			tell(w, "  or, if you know better: --acknowledge %s\n", c.Name)
		}
	}
	return err
}
