// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/internal/requests"
)

const evacuateLong = `The command marks every lock in the namespace, or with -A in the cluster, with the zone. Leaders in the
zone hand over to the candidate that would come first elsewhere. Candidates in the zone lead only if
nobody else is there. The command returns when every leader has moved or says why it stays, or after
--timeout. The exit code is 1 if a leader stayed.

Locks that are created later are not marked. 'kubectl zonelect restore' or --until, by the candidates'
clocks, ends the evacuation. Leaders do not move back by themselves.

The command refuses (exit code 3) if no candidate is in the zone. ClusterRole zonelect-shift grants the rights.`

const evacuateExample = `  kubectl zonelect evacuate zone-a -A --dry-run     # what it would do
  kubectl zonelect evacuate zone-a -A               # the cloud says that zone-a is in trouble
  kubectl zonelect evacuate zone-a -A --until 2h    # maintenance for two hours`

const restoreLong = `Candidates in the zone may lead again. Leaders stay where they are: use handover to move one.`

// evacuation is one call of evacuate or restore.
type evacuation struct {
	env     *environment
	cluster cluster

	zone               string
	everywhere, dryRun bool
	until, timeout     time.Duration
}

func newEvacuate(env *environment) *cobra.Command {
	e := &evacuation{env: env}
	c := e.command("evacuate ZONE", "Move leadership out of a zone, and keep it out", evacuateLong, evacuateExample, e.evacuate)
	c.Flags().DurationVar(&e.until, "until", 0, "For how long, such as 2h. Default: until restore ends it.")
	c.Flags().DurationVar(&e.timeout, "timeout", time.Minute, "How long to wait until the leaders have moved.")
	c.Flags().BoolVar(&e.dryRun, "dry-run", false, dryRunUsage)
	return c
}

func newRestore(env *environment) *cobra.Command {
	e := &evacuation{env: env, timeout: time.Minute}
	return e.command("restore ZONE", "End an evacuation", restoreLong, "  kubectl zonelect restore zone-a -A", e.restore)
}

func (e *evacuation) command(use, short, long, example string, do func(context.Context, []inspect.Election) error) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Long: long, Example: example,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if until := c.Flag("until"); until != nil && until.Changed && e.until < time.Second {
				return usage("--until=%s is no time to leave a zone in", e.until)
			}
			found, err := e.find(c.Context(), args[0])
			if err != nil {
				return err
			}
			return do(c.Context(), found)
		},
	}
	c.Flags().BoolVarP(&e.everywhere, "all-namespaces", "A", false, "All locks of the cluster.")
	return c
}

// find completes the flags and reads the locks.
func (e *evacuation) find(ctx context.Context, zone string) ([]inspect.Election, error) {
	var err error
	if e.cluster, err = e.env.cluster("shift", e.everywhere); err != nil {
		return nil, err
	}
	e.zone = zone
	list, err := e.cluster.Leases(ctx, e.cluster.namespace)
	if err != nil {
		return nil, err
	}
	found := inspect.Among(list)
	if len(found) == 0 {
		return nil, refused("no locks found in %s", e.cluster.scope())
	}
	return found, nil
}

func (e *evacuation) evacuate(ctx context.Context, found []inspect.Election) error {
	var all, leaving []*move
	var there []inspect.Candidate
	for _, f := range found {
		m := &move{NamespacedName: f.NamespacedName, from: f.Leader(), avoid: e.zone}
		all, there = append(all, m), append(there, f.Candidates...)
		if m.from != nil {
			there = append(there, inspect.Candidate{Zone: m.from.Zone})
		}
		if m.from != nil && m.from.Zone == e.zone {
			m.waits = m.from.Identity + " has not answered"
			leaving = append(leaving, m)
		}
	}
	if zones, _ := inspect.ZonesOf(there); !slices.Contains(zones, e.zone) {
		return refused("no candidate in %s is in zone %s: they are in %s", e.cluster.scope(), e.zone, cmp.Or(strings.Join(zones, ", "), "none"))
	}
	if !e.dryRun {
		until := requests.Evacuation{Zone: e.zone}
		if e.until > 0 {
			until.Until = e.env.now().Add(e.until).Truncate(time.Second)
		}
		e.change(ctx, all, func(lease *coordinationv1.Lease) error {
			kept := slices.DeleteFunc(requests.InForce(lease.Annotations[record.AnnotationEvacuated], e.env.now()), e.isZone)
			text := requests.FormatEvacuations(append(kept, until))
			if len(text) > record.MaxText {
				return fmt.Errorf("the list of evacuated zones would be %d bytes long, at most %d are read", len(text), record.MaxText)
			}
			annotate(lease, record.AnnotationEvacuated, text)
			annotate(lease, record.AnnotationRefused, "") // a leader that stays writes it again
			return nil
		})
		said := e.env.waiting("waiting up to %s for %s to leave zone %s\n", e.timeout, inspect.Many(len(leaving), "leader"), e.zone)
		err := cmp.Or(e.cluster.await(ctx, e.timeout, leaving), ctx.Err())
		said()
		if err != nil {
			return err
		}
	}
	return e.print(all, "marked")
}

func (e *evacuation) isZone(o requests.Evacuation) bool { return o.Zone == e.zone }

func (e *evacuation) restore(ctx context.Context, found []inspect.Election) error {
	var all []*move
	for _, f := range found {
		zones, _ := requests.ParseEvacuations(record.Read(f.Lease).Evacuated)
		if slices.ContainsFunc(zones, e.isZone) {
			all = append(all, &move{NamespacedName: f.NamespacedName, from: f.Leader()})
		}
	}
	if len(all) == 0 {
		return refused("no lock in %s is kept out of zone %s", e.cluster.scope(), e.zone)
	}
	e.change(ctx, all, func(lease *coordinationv1.Lease) error {
		zones, _ := requests.ParseEvacuations(lease.Annotations[record.AnnotationEvacuated])
		annotate(lease, record.AnnotationEvacuated, requests.FormatEvacuations(slices.DeleteFunc(zones, e.isZone)))
		return nil
	})
	return e.print(all, "restored")
}

// atOnce is how many Leases are changed at the same time.
const atOnce = 10

// change changes the Leases of all locks. It tries all of them even if ctx ends: then each says so.
func (e *evacuation) change(ctx context.Context, all []*move, do func(*coordinationv1.Lease) error) {
	workqueue.ParallelizeUntil(context.WithoutCancel(ctx), atOnce, len(all), func(i int) {
		all[i].failed = e.cluster.change(ctx, all[i].NamespacedName, do)
	})
}

// print prints the result for each lock, or in a dry run the expected result. It fails if a lock may be led in the zone
// that it should leave, or could not be changed.
func (e *evacuation) print(all []*move, done string) error {
	var rows [][]string
	var failed error
	stay := 0
	for _, m := range all {
		result, well := e.result(m, done)
		if failed = cmp.Or(failed, m.failed); !well {
			stay++
		}
		name := m.String()
		if !e.everywhere {
			name = m.Name
		}
		from, to := cmp.Or(m.from, &inspect.Leader{}), cmp.Or(m.to, &inspect.Leader{})
		rows = append(rows, []string{name, from.String(), to.String(), result})
	}
	err := printTable(e.env.streams.Out, []string{"Lock", "From", "To", "Result"}, rows)
	switch {
	case failed != nil:
		return fmt.Errorf("a lock could not be changed: %w", failed)
	case err != nil || stay == 0 || e.dryRun:
		return err
	}
	return fmt.Errorf("%s may still be led in zone %s: a leader leaves as soon as it can", inspect.Many(stay, "lock"), e.zone)
}

// result says what happened to a lock, or in a dry run would happen. well says that the lock is as it should be.
func (e *evacuation) result(m *move, done string) (text string, well bool) {
	if e.dryRun {
		done = "would be " + done
	}
	switch {
	case m.failed != nil:
		return "failed: " + m.failed.Error(), false
	case m.to != nil && m.to.Zone == "":
		return "moved to a leader whose zone is not known", false
	case m.to != nil:
		return "moved", true
	case m.avoid != "" && m.from != nil && m.from.Zone == "":
		return "stays: its zone is not known", false
	case m.waits == "":
		return done, true
	case e.dryRun:
		return "would move", true
	case m.refused != "":
		return "stays: " + m.refused, false
	}
	return "not moved after " + e.timeout.String() + ": " + m.waits, false
}
