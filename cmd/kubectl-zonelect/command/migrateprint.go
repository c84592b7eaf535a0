// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks/ownerref"
	"github.com/zonelect/zonelect/migrate"
)

// printPlan prints a plan for people.
func printPlan(out io.Writer, plan migrate.Plan) error {
	text := &strings.Builder{}
	standing(text, plan.Report)
	step(text, "Next step", plan.Next)
	if len(plan.Checks) > 0 {
		tell(text, "\n")
	}
	if err := printChecks(text, plan.Checks, nil); err != nil {
		return err
	}
	step(text, "Way back", plan.Back)
	_, err := io.WriteString(out, text.String())
	return err
}

// standing says how far a migration has come.
func standing(w io.Writer, r migrate.Report) {
	tell(w, "Lock:        %s/%s\n", r.Namespace, r.Lock)
	phase := r.Phase
	if phase == "" && r.ConfigMap.Kind == ownerref.Legacy {
		phase = migrate.Legacy // as in status: the migration has not begun
	}
	tell(w, "Phase:       %s\n", phaseText(phase))
	tell(w, "Lease:       %s\n", leaseText(r.Lease))
	if lock := record.ParseLegacy(r.Legacy); lock.Elected {
		tell(w, "Record:      %s: %s\n", inspect.ObjectOf(lock), heldBy(r.Record().Holder))
	} else {
		tell(w, "ConfigMap:   %s\n", configMapText(r.ConfigMap))
	}
	tell(w, "Candidates:  %s\n", candidatesText(r.Candidates))
	tell(w, "Legacy pods: %s\n", legacyText(r))
	for _, text := range r.Problems {
		tell(w, "Problem:     %s\n", text)
	}
	for _, text := range r.Warnings {
		tell(w, "Warning:     %s\n", text)
	}
}

func phaseText(phase migrate.Phase) string { return cmp.Or(string(phase), "<none>") }

func leaseText(l migrate.LeaseReport) string {
	switch {
	case !l.Exists:
		return "absent"
	case l.Zone != "":
		return heldBy(l.Holder) + " in zone " + l.Zone
	default:
		return heldBy(l.Holder)
	}
}

func heldBy(holder string) string { return "held by " + cmp.Or(holder, "nobody") }

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

func candidatesText(all []migrate.Candidate) string {
	if len(all) == 0 {
		return "none"
	}
	var zones []inspect.Candidate
	for _, c := range all {
		zones = append(zones, inspect.Candidate{Identity: c.Identity, Zone: c.Zone})
	}
	return fmt.Sprintf("%d (%s)", len(all), byZone(inspect.ByZone(zones)))
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

// step says what one step does; nil means no step.
func step(w io.Writer, title string, s *migrate.Step) {
	if s != nil {
		tell(w, "\n%s: %s, to phase %s\n  %s\n", title, cmp.Or(s.By, "by hand"), s.To, s.Does)
	}
}

// printChecks prints the checks of a step, and what to do about those that
// failed.
func printChecks(w io.Writer, checks []migrate.Check, acknowledged []string) error {
	var rows [][]string
	for _, c := range checks {
		rows = append(rows, []string{c.Name, resultOf(c, acknowledged), c.Detail})
	}
	if err := printTable(w, []string{"Check", "Result", "Detail"}, rows); err != nil {
		return err
	}
	for _, c := range checks {
		if c.Passes(acknowledged...) {
			continue
		}
		tell(w, "%s: to do: %s\n", c.Name, c.ToDo)
		if c.Acknowledgeable {
			tell(w, "  or, if you know better: --acknowledge %s\n", c.Name)
		}
	}
	return nil
}

func resultOf(c migrate.Check, acknowledged []string) string {
	switch {
	case c.OK:
		return "ok"
	case c.Passes(acknowledged...):
		return "acknowledged"
	default:
		return "FAILED"
	}
}
