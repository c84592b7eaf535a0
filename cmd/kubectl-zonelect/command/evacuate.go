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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/workqueue"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/doctor"
	"github.com/zonelect/zonelect/internal/evacuations"
	"github.com/zonelect/zonelect/internal/handovers"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

const evacuateLong = `The command marks every lock in the namespace, or with -A in the cluster, with the zone. Leaders in the
zone hand over to the candidate that would come first elsewhere. Candidates in the zone lead only if
nobody else is there. The command returns when every leader has moved, or after --timeout. The exit code
is 1 if a leader stayed.

Locks that are created later are not marked. 'kubectl zonelect restore' or --until ends the evacuation.
Leaders do not move back by themselves.

A leader whose zone nobody knows counts as one that stayed. --until goes by the clocks of the candidates.

The command refuses (exit code 3) if the zone has no candidates and no nodes, or if no zone would be left.
ClusterRole zonelect-shift grants the rights.`

const evacuateExample = `  kubectl zonelect evacuate zone-a -A --dry-run     # what it would do
  kubectl zonelect evacuate zone-a -A               # the cloud says that zone-a is in trouble
  kubectl zonelect evacuate zone-a -A --until 2h    # maintenance for two hours`

// evacuation is one call of evacuate or restore.
type evacuation struct {
	env     *environment
	printer printer
	cluster cluster
	zones   *inspect.Zones

	zone               string
	everywhere, dryRun bool
	until              string
	ends               time.Time
	timeout            time.Duration
}

func newEvacuate(env *environment) *cobra.Command {
	e := &evacuation{env: env}
	c := e.command("evacuate ZONE", "Move leadership out of a zone, and keep it out", evacuateLong, evacuateExample, e.evacuate)
	c.ValidArgsFunction = cobra.NoFileCompletions
	c.Flags().StringVar(&e.until, "until", "", "When the evacuation ends: a time such as 2026-11-21T18:00:00Z, or a duration such as 2h. Default: restore ends it.")
	c.Flags().DurationVar(&e.timeout, "timeout", time.Minute, "How long to wait until the leaders have moved.")
	return c
}

func (e *evacuation) command(use, short, long, example string, do func(context.Context, []inspect.Election) error) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Long: long, Example: example,
		Args: one("ZONE"), Annotations: roleShift.marks(),
		RunE: func(c *cobra.Command, args []string) error {
			found, err := e.find(c.Context(), args[0])
			if err == nil {
				err = do(c.Context(), found)
			}
			return failed(err)
		},
	}
	c.Flags().BoolVarP(&e.everywhere, "all-namespaces", "A", false, "All locks of the cluster.")
	addDryRun(c, &e.dryRun)
	e.printer.addFlags(c)
	return c
}

func (e *evacuation) complete(zone string) error {
	faults := validation.IsValidLabelValue(zone)
	switch {
	case len(faults) > 0:
		return usage("no zone can be %q: %s", zone, strings.Join(faults, "; "))
	case e.timeout <= 0:
		return usage("--timeout=%s must be above zero", e.timeout)
	}
	if err := e.printer.complete(); err != nil {
		return err
	}
	e.env.changed = nothing
	e.zone = zone
	if e.until == "" {
		return nil
	}
	now := e.env.now()
	if d, err := time.ParseDuration(e.until); err == nil {
		e.ends = now.Add(d)
	} else if e.ends, err = time.Parse(time.RFC3339, e.until); err != nil {
		return usage("--until=%s: give a time such as %s, or a duration such as 2h", e.until, now.Add(2*time.Hour).UTC().Format(time.RFC3339))
	}
	if e.ends = e.ends.Truncate(time.Second); !e.ends.After(now) {
		return usage("--until=%s is in the past", e.until)
	}
	return nil
}

// find completes the flags and reads the locks.
func (e *evacuation) find(ctx context.Context, zone string) ([]inspect.Election, error) {
	err := e.complete(zone)
	if err != nil {
		return nil, err
	}
	if e.cluster, err = e.env.cluster(roleShift, e.everywhere); err != nil {
		return nil, err
	}
	list, err := e.cluster.Leases(ctx, e.cluster.namespace)
	if err != nil {
		return nil, err
	}
	found := inspect.Among(list)
	e.zones = e.cluster.zones()
	e.zones.Find(ctx, found)
	if len(found) > 0 {
		return found, nil
	}
	unknown, err := e.cluster.checkNamespace(ctx, "; ")
	if err != nil {
		return nil, refused("%w", err)
	}
	return nil, refused("no locks found in %s%s", e.cluster.scope(), unknown)
}

// row is one lock in the result.
type row struct {
	inspect.Election
	move   *move // nil if no leader has to move
	failed error
}

// unsure reports whether nobody knows in which zone the lock is led now.
func (r *row) unsure() bool {
	if r.move != nil {
		return r.move.to != nil && r.move.to.Zone == ""
	}
	l := r.Leader()
	return l != nil && l.Zone == ""
}

func (e *evacuation) evacuate(ctx context.Context, found []inspect.Election) error {
	if err := e.check(ctx, found); err != nil {
		return err
	}
	rows := make([]*row, len(found))
	for i, f := range found {
		rows[i] = &row{Election: f}
		if l := f.Leader(); l != nil && l.Zone == e.zone {
			rows[i].move = e.leave(ctx, f, *l)
		}
	}
	e.tellUnaware(found)
	if e.dryRun {
		return e.print(rows, e.expected)
	}
	e.env.changed = "some locks may be marked already: 'kubectl zonelect restore " + e.zone + "' undoes that"
	e.all(ctx, rows, e.mark)
	if err := cmp.Or(e.await(ctx, rows), ctx.Err()); err != nil {
		return err
	}
	unsure := 0
	for _, r := range rows {
		if r.failed == nil && r.unsure() {
			unsure++
		}
	}
	return cmp.Or(e.print(rows, e.result), e.verdict(rows, unsure))
}

// leave is the move of a leader out of the zone. One that does not know that it is there does not
// go by the mark: it is asked to hand over.
func (e *evacuation) leave(ctx context.Context, f inspect.Election, l inspect.Leader) *move {
	m := &move{lock: f.NamespacedName, from: l, avoid: e.zone, waits: l.Identity + " has not answered"}
	m.locate = func(l *inspect.Leader) { e.zones.Locate(ctx, f, l) }
	if !l.ZoneByNode {
		return m
	}
	outside, _ := inspect.Outside(e.away(f), inspect.ByZone(f.Candidates))
	outside = slices.DeleteFunc(outside, func(c inspect.Candidate) bool { return c.Identity == l.Identity || c.Unfit() != "" })
	m.refused = l.Identity + " does not know its zone, and no healthy candidate is known outside " + listed(e.away(f))
	for _, c := range outside {
		if text := handovers.Format(handovers.Request{Holder: l.Identity, Successor: locks.Successor{Identity: c.Identity}}); len(text) <= record.MaxText {
			m.request, m.refused = text, ""
			break
		}
	}
	return m
}

// tellUnaware says that a mark does not keep those candidates out of the zone that do not know
// where they are.
func (e *evacuation) tellUnaware(found []inspect.Election) {
	unaware := 0
	for _, f := range found {
		for _, c := range f.Candidates {
			if c.SaidZone() == "" && (c.Zone == "" || c.Zone == e.zone) {
				unaware++
			}
		}
	}
	if unaware > 0 {
		e.env.tell("note: candidates that do not know their zone may lead in zone %s (%d): give them the right to read nodes (kustomize base zone: see %s) or NODE_ZONE, and restart them\n", e.zone, unaware, doctor.Rights)
	}
}

// away returns the zones that the lock's leader must leave.
func (e *evacuation) away(f inspect.Election) []string {
	return append(awayFrom(f.Lease, e.env.now()), e.zone)
}

// cornered reports whether it is known that no candidate would be left outside those zones, and
// whether that may be so.
func (e *evacuation) cornered(f inspect.Election) (surely, perhaps bool) {
	outside, unknown := inspect.Outside(e.away(f), f.Candidates)
	perhaps = len(f.Candidates) > 0 && len(outside) == 0
	return perhaps && len(unknown) == 0, perhaps
}

// check refuses a zone that is unknown, and an evacuation that leaves no zone.
func (e *evacuation) check(ctx context.Context, found []inspect.Election) error {
	var zones []string
	candidates, left := false, false // left: some lock would have a candidate elsewhere
	for _, f := range found {
		zones = append(zones, zonesIn(f)...)
		candidates = candidates || len(f.Candidates) > 0
		cornered, _ := e.cornered(f)
		left = left || len(f.Candidates) > 0 && !cornered
	}
	if candidates && !left {
		return refused("no lock in %s would have a candidate outside the evacuated zones: the candidates are in %s", e.cluster.scope(), listed(zones))
	}
	if slices.Contains(zones, e.zone) && candidates {
		return nil
	}
	nodes, err := e.cluster.ZonesWithNodes(ctx)
	if err != nil {
		e.env.tell("note: which zones have nodes is not known: %s\n", e.cluster.role.explained(err))
	}
	if zones = append(zones, nodes...); !slices.Contains(zones, e.zone) {
		return refused("zone %s is unknown: it has no candidates and no nodes; the zones are %s", e.zone, listed(zones))
	}
	away := e.away(found[0])
	if !candidates && !slices.ContainsFunc(zones, func(z string) bool { return !slices.Contains(away, z) }) {
		return refused("no zone would be left: the zones are %s", listed(zones))
	}
	return nil
}

// zonesIn returns the zones that candidates and the leader are in.
func zonesIn(f inspect.Election) []string {
	var zones []string
	for _, c := range f.Candidates {
		zones = append(zones, c.Zone)
	}
	if l := f.Leader(); l != nil {
		zones = append(zones, l.Zone)
	}
	return slices.DeleteFunc(zones, func(z string) bool { return z == "" })
}

// atOnce is how many Leases are changed at the same time.
const atOnce = 10

// all calls do for each row, several at a time. It does so for all rows even if ctx ends:
// then do fails, and each row says so.
func (e *evacuation) all(ctx context.Context, rows []*row, do func(context.Context, *row)) {
	workqueue.ParallelizeUntil(context.WithoutCancel(ctx), atOnce, len(rows), func(i int) { do(ctx, rows[i]) })
}

// mark notes the zone on a Lease.
func (e *evacuation) mark(ctx context.Context, r *row) {
	lease, err := e.cluster.change(ctx, r.NamespacedName, func(lease *coordinationv1.Lease) error {
		kept := slices.DeleteFunc(evacuations.InForce(lease.Annotations[record.AnnotationEvacuated], e.env.now()), func(o evacuations.Evacuation) bool { return o.Zone == e.zone })
		text := evacuations.Format(append(kept, evacuations.Evacuation{Zone: e.zone, Until: e.ends}))
		if len(text) > record.MaxText {
			return fmt.Errorf("the list of evacuated zones would be %d bytes long, at most %d are read", len(text), record.MaxText)
		}
		annotate(lease, record.AnnotationEvacuated, text)
		annotate(lease, record.AnnotationRefused, "") // a leader that stays writes it again
		if r.move != nil && r.move.request != "" {
			annotate(lease, record.AnnotationRequest, r.move.request)
		}
		return nil
	})
	if r.failed = err; err == nil && r.move != nil {
		r.move.asked = record.Number(lease.ResourceVersion)
	}
}

// await waits until the leaders have moved.
func (e *evacuation) await(ctx context.Context, rows []*row) error {
	var moves []*move
	for _, r := range rows {
		if r.move != nil && r.failed == nil && !r.move.over() {
			moves = append(moves, r.move)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	e.env.changed = "the locks are marked, and leaders go on leaving zone " + e.zone + ": 'kubectl zonelect restore " + e.zone + "' ends that"
	defer e.env.waiting("waiting up to %s for %s to leave zone %s\n", e.timeout, inspect.Many(len(moves), "leader"), e.zone)()
	return e.cluster.await(ctx, moves, func(m *move) {
		if m.to != nil {
			e.env.tell("lock %s went from %s to %s\n", e.nameOf(m.lock), m.from, m.to)
		}
	})
}

func (e *evacuation) nameOf(lock types.NamespacedName) string {
	if e.everywhere {
		return lock.String()
	}
	return lock.Name
}

// print prints the result for each lock, or in a dry run the expected result: a table for people.
func (e *evacuation) print(rows []*row, result func(*row) (word, why string)) error {
	list := &LockMoveList{TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: "LockMoveList"}, Items: []LockMove{}}
	var table [][]string
	for _, r := range rows {
		one, from, to := newLockMove(r.NamespacedName), "", ""
		one.From, one.DryRun = r.Leader(), e.dryRun
		one.Result, one.Why = result(r)
		if one.From != nil {
			from = one.From.String()
		}
		if r.move != nil && r.move.to != nil {
			one.To, to = r.move.to, r.move.to.String()
		}
		list.Items = append(list.Items, one)
		table = append(table, []string{e.nameOf(r.NamespacedName), from, to, strings.TrimSuffix(one.Result+": "+one.Why, ": ")})
	}
	if e.printer.objects != nil {
		return printObject(e.env.streams.Out, e.printer.objects, list)
	}
	return printTable(e.env.streams.Out, newTables(false), []string{"Lock", "From", "To", "Result"}, table)
}

// result says what happened to a lock, and why.
func (e *evacuation) result(r *row) (word, why string) {
	switch {
	case r.failed != nil:
		return "failed", r.failed.Error()
	case r.move == nil && r.unsure():
		return "stays", "its zone is not known"
	case r.move == nil:
		return "marked", ""
	case r.unsure():
		return "moved", "to a leader whose zone is not known"
	case r.move.to != nil:
		return "moved", ""
	case r.move.refused != "":
		return "stays", r.move.refused
	}
	return "not moved after " + e.timeout.String(), r.move.waits
}

// expected says what would happen to a lock, and why.
func (e *evacuation) expected(r *row) (word, why string) {
	surely, perhaps := e.cornered(r.Election)
	switch {
	case r.move == nil && r.unsure():
		return "would stay", "its zone is not known"
	case r.move == nil:
		return "would be marked", ""
	case surely:
		return "would stay", "no candidate is known outside " + listed(e.away(r.Election))
	case r.move.refused != "":
		return "would stay", r.move.refused
	case perhaps:
		return "may move", "to a candidate whose zone is not known"
	}
	return "would move", ""
}

// verdict is the error of a command that did not complete its task. unsure is how many locks may be
// led in the zone.
func (e *evacuation) verdict(rows []*row, unsure int) error {
	stay, wrong := 0, 0
	var cause error
	for _, r := range rows {
		switch {
		case r.failed != nil:
			wrong, cause = wrong+1, r.failed
		case r.move != nil && r.move.to == nil:
			stay++
		}
	}
	var parts []string
	if stay > 0 {
		parts = append(parts, fmt.Sprintf("%s did not leave zone %s: a leader leaves as soon as it can", inspect.Many(stay, "lock"), e.zone))
	}
	if unsure > 0 {
		parts = append(parts, fmt.Sprintf("whether %s is led in zone %s is not known: if so, hand it over, or delete its leader's pod", inspect.Many(unsure, "lock"), e.zone))
	}
	if wrong > 0 {
		parts = append(parts, fmt.Sprintf("%s could not be changed", inspect.Many(wrong, "lock")))
	}
	if len(parts) == 0 {
		return nil
	}
	return because{strings.Join(parts, "; "), cause}
}

// awayFrom returns the zones that are evacuated according to a Lease.
func awayFrom(lease *coordinationv1.Lease, now time.Time) []string {
	var zones []string
	for _, e := range evacuations.InForce(record.Read(lease).Evacuated, now) {
		zones = append(zones, e.Zone)
	}
	return zones
}

// listed lists zones for people.
func listed(zones []string) string {
	slices.Sort(zones)
	return cmp.Or(strings.Join(slices.Compact(zones), ", "), "none")
}
