// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/evacuations"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/record"
)

const restoreLong = `Candidates in the zone may lead again. Leaders stay where they are: use handover to move one.`

func newRestore(env *environment) *cobra.Command {
	e := &evacuation{env: env, timeout: time.Minute}
	c := e.command("restore ZONE", "End an evacuation", restoreLong, "  kubectl zonelect restore zone-a -A", e.restore)
	c.ValidArgsFunction = cobra.NoFileCompletions
	return c
}

func (e *evacuation) restore(ctx context.Context, found []inspect.Election) error {
	var rows []*row
	var zones, away []string
	for _, f := range found {
		zones = append(zones, zonesIn(f)...)
		there := evacuatedOn(f.Lease)
		away = append(away, there...)
		if slices.Contains(there, e.zone) {
			rows = append(rows, &row{Election: f})
		}
	}
	if len(rows) == 0 && !slices.Contains(zones, e.zone) {
		return refused("zone %s is unknown: it has no candidates, and no lock in %s is kept out of it; the evacuated zones are %s", e.zone, e.cluster.scope(), listed(away))
	}
	if !e.dryRun {
		e.env.changed = "some locks may be restored already: run the command again"
		e.all(ctx, rows, func(ctx context.Context, r *row) {
			_, r.failed = e.cluster.change(ctx, r.NamespacedName, func(lease *coordinationv1.Lease) error {
				all, _ := evacuations.Parse(lease.Annotations[record.AnnotationEvacuated])
				all = slices.DeleteFunc(all, func(o evacuations.Evacuation) bool { return o.Zone == e.zone })
				annotate(lease, record.AnnotationEvacuated, evacuations.Format(all))
				return nil
			})
		})
	}
	verb := "restored"
	if e.dryRun {
		verb = "would be restored"
	}
	var err error
	if e.printer.objects != nil {
		err = e.print(rows, func(r *row) (word, why string) {
			if r.failed != nil {
				return "failed", r.failed.Error()
			}
			return verb, ""
		})
	}
	for _, r := range rows {
		if r.failed != nil {
			e.env.tell("lock %s: %v\n", e.nameOf(r.NamespacedName), r.failed)
		}
	}
	if err = cmp.Or(err, e.verdict(rows, 0)); err != nil || e.printer.objects != nil {
		return err
	}
	if !e.dryRun {
		verb = "is restored"
	}
	return say(e.env.streams.Out, "zone %s %s for %s\n", e.zone, verb, inspect.Many(len(rows), "lock"))
}

// evacuatedOn returns the zones on a Lease, even those whose time is over.
func evacuatedOn(lease *coordinationv1.Lease) []string { return awayFrom(lease, time.Time{}) }
