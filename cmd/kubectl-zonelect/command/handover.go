// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/handovers"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

const handoverLong = `The leader's work stops, and another candidate leads within milliseconds. Without --to and --to-zone, the
successor is the candidate that would come first if the leader died.

The command refuses (exit code 3) and changes nothing if nobody leads, or if the successor is unknown,
unhealthy or dead. The leader may refuse too. If the leader has not answered within --timeout, or if you
interrupt the command, it takes the request back.

ClusterRole zonelect-shift grants the rights: get, list and update on leases. With get on pods and
nodes, the command also refuses a successor whose pod or node is dead.`

const handoverExample = `  kubectl zonelect handover my-operator                      # before work on a node
  kubectl zonelect handover my-operator --to-zone zone-b`

// handover is one call of the command.
type handover struct {
	env     *environment
	printer printer
	cluster cluster
	zones   *inspect.Zones
	to      locks.Successor
	asks    locks.Successor // what the leader is asked for
	dryRun  bool
	wait    bool
	timeout time.Duration
}

func newHandover(env *environment) *cobra.Command {
	h := &handover{env: env}
	c := &cobra.Command{
		Use:               "handover LOCK",
		Short:             "Move leadership to another candidate",
		Long:              handoverLong,
		Example:           handoverExample,
		Args:              one("LOCK"),
		Annotations:       roleShift.marks(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			err := h.complete(c)
			if err == nil {
				err = h.run(c.Context(), args[0])
			}
			return failed(err)
		},
	}
	f := c.Flags()
	f.StringVar(&h.to.Identity, "to", "", "The identity of the next leader.")
	f.StringVar(&h.to.Zone, "to-zone", "", "The zone of the next leader.")
	f.BoolVar(&h.wait, "wait", true, "Wait until another leads.")
	f.DurationVar(&h.timeout, "timeout", time.Minute, "How long to wait.")
	addDryRun(c, &h.dryRun)
	h.printer.addFlags(c)
	return c
}

func (h *handover) complete(c *cobra.Command) error {
	for _, flag := range []string{"to", "to-zone"} {
		if f := c.Flag(flag); f.Changed && f.Value.String() == "" {
			return usage("--%s is empty", flag)
		}
	}
	switch {
	case h.to.Identity != "" && h.to.Zone != "":
		return usage("use either --to or --to-zone, not both")
	case h.timeout <= 0:
		return usage("--timeout=%s must be above zero", h.timeout)
	}
	h.env.changed = nothing
	return h.printer.complete()
}

// observeHolder is how long a holder that looks dead is watched.
const observeHolder = 3 * time.Second

func (h *handover) run(ctx context.Context, name string) error {
	var err error
	if h.cluster, err = h.env.cluster(roleShift, false); err != nil {
		return err
	}
	f, err := h.cluster.Lock(ctx, h.cluster.lock(name))
	if err != nil {
		return err
	}
	if f.Lease == nil {
		return h.cluster.absent(ctx, name)
	}
	if f.Candidates, err = h.cluster.Candidates(ctx, f); err != nil {
		return err
	}
	if err := h.cluster.Surroundings(ctx, &f); err != nil {
		return err
	}
	list := []inspect.Election{f}
	if err := h.cluster.Observe(ctx, list, h.env.now, observeHolder); err != nil {
		return err
	}
	h.zones = h.cluster.zones()
	h.zones.Find(ctx, list)
	return h.ask(ctx, list[0])
}

// report prints the result: as a text for people, which is made of args, or else as an object.
func (h *handover) report(m LockMove, text string, args ...any) error {
	if h.printer.forPeople() {
		return say(h.env.streams.Out, text, args...)
	}
	if m.DryRun = h.dryRun; h.asks != (locks.Successor{}) {
		m.Successor = &h.asks
	}
	return printObject(h.env.streams.Out, h.printer.objects, &m)
}

// ask checks that a handover is possible, and asks for it.
func (h *handover) ask(ctx context.Context, f inspect.Election) error {
	leader, err := h.leader(f)
	if err != nil {
		return err
	}
	done := newLockMove(f.NamespacedName)
	done.From = &leader
	if leader.Identity == h.to.Identity || h.to.Zone != "" && leader.Zone == h.to.Zone {
		done.Result, done.To = "unchanged", &leader
		return h.report(done, "lock %s is led by %s already\n", f.Name, leader)
	}
	if err := h.choose(f, leader); err != nil {
		return err
	}
	m := &move{lock: f.NamespacedName, from: leader, waits: leader.Identity + " has not answered"}
	m.locate = func(l *inspect.Leader) { h.zones.Locate(ctx, f, l) }
	request := handovers.Format(handovers.Request{Holder: leader.Identity, Successor: h.asks})
	if len(request) > record.MaxText {
		return refused("the identities do not fit into a request: they are too long")
	}
	if h.dryRun {
		done.Result = "would be asked"
		return h.report(done, "lock %s could go from %s to %s (dry run)\n", f.Name, leader, h.successor())
	}
	h.env.changed = "whether the leader was asked is not known: see 'kubectl zonelect status " + f.Name + "'"
	lease, err := h.cluster.change(ctx, f.NamespacedName, func(lease *coordinationv1.Lease) error {
		if now := inspect.LeaderOf(record.Read(lease)); now == nil || now.Identity != leader.Identity {
			return refused("lock %s has changed hands meanwhile: try again", f.Name)
		}
		annotate(lease, record.AnnotationRequest, request)
		annotate(lease, record.AnnotationRefused, "")
		return nil
	})
	if err != nil {
		return err
	}
	m.asked = record.Number(lease.ResourceVersion)
	if !h.wait {
		done.Result = "asked"
		return h.report(done, "%s, the leader of lock %s, is asked to hand over\n", leader, f.Name)
	}
	return h.await(ctx, m, request, done)
}

// leader returns the holder of the lock, if it can hand the lock over.
func (h *handover) leader(f inspect.Election) (inspect.Leader, error) {
	s := f.Status(h.env.now())
	_, ours := inspect.DetailsOf(f.Snapshot().Record)
	switch {
	case f.Lease == nil || s.Leader == nil:
		return inspect.Leader{}, refused("nobody holds lock %s (%s): the first candidate that comes takes it", f.Name, s.State)
	case !ours:
		return inspect.Leader{}, refused("%s, which holds lock %s, is not a zonelect candidate: it ignores requests", s.Leader.Identity, f.Name)
	case s.State != inspect.Held && s.State != inspect.Waiting:
		return inspect.Leader{}, refused("%s, which holds lock %s, does not renew it: another takes over when its lease of %d seconds has run out", s.Leader, f.Name, s.Leader.LeaseDurationSeconds)
	}
	return *s.Leader, nil
}

// choose refuses a successor that does not exist or cannot lead. If some candidates cannot lead, or
// are not where they have to be, and the leader may not know that, it names another.
func (h *handover) choose(f inspect.Election, leader inspect.Leader) error {
	if len(f.Candidates) == 0 {
		return refused("no candidate for lock %s has announced itself, so none can be named as the successor", f.Name)
	}
	away := awayFrom(f.Lease, h.env.now())
	if h.to.Zone != "" && slices.Contains(away, h.to.Zone) {
		return refused("zone %s is evacuated for lock %s: restore it first, or name a candidate with --to", h.to.Zone, f.Name)
	}
	var fit, unfit, unsure []string
	unaware := false // the leader does not know where some candidates are
	for _, c := range f.Candidates {
		why := c.Unfit()
		unaware = unaware || c.SaidZone() == "" && (h.to.Zone != "" || len(away) > 0)
		switch {
		case c.Identity != leader.Identity && c.Zone == "" && h.to.Identity == "" && (h.to.Zone != "" || len(away) > 0):
			unsure = append(unsure, c.Identity)
		case c.Identity == leader.Identity, !h.wants(c.Identity, c.Zone), h.to.Identity == "" && slices.Contains(away, c.Zone):
		case why != "":
			unfit = append(unfit, c.Identity+": "+why)
		default:
			fit = append(fit, c.Identity)
		}
	}
	h.asks = h.to
	switch {
	case len(fit) > 0 && (len(unfit) > 0 || unaware):
		h.asks = locks.Successor{Identity: fit[0]}
	case len(fit) == 0 && len(unfit) > 0:
		return refused("no successor for lock %s can lead: %s", f.Name, strings.Join(unfit, "; "))
	case len(fit) == 0 && len(unsure) > 0:
		return refused("no candidate for lock %s is known to be where it has to be: the zone of %s is not known; name one with --to", f.Name, strings.Join(unsure, ", "))
	case len(fit) == 0:
		return refused("no candidate for lock %s %s: there are %s", f.Name, h.where(len(away) > 0), identities(f.Candidates))
	}
	return nil
}

// wants reports whether the flags allow this candidate as the next leader.
func (h *handover) wants(identity, zone string) bool {
	return (h.to.Identity == "" || identity == h.to.Identity) && (h.to.Zone == "" || zone == h.to.Zone)
}

// successor names who is asked for, for people.
func (h *handover) successor() string {
	switch {
	case h.asks.Identity != "":
		return h.asks.Identity
	case h.asks.Zone != "":
		return "a candidate in zone " + h.asks.Zone
	}
	return "the candidate that comes first"
}

// where describes the successor that the flags ask for.
func (h *handover) where(evacuated bool) string {
	switch {
	case h.to.Identity != "":
		return "has the identity " + h.to.Identity
	case h.to.Zone != "":
		return "is in zone " + h.to.Zone
	case evacuated:
		return "but its leader is outside the evacuated zones"
	}
	return "is there but its leader"
}

// identities lists candidates, for people.
func identities(all []inspect.Candidate) string {
	var texts []string
	for _, c := range inspect.ByZone(all) {
		texts = append(texts, inspect.Leader{Identity: c.Identity, Zone: c.Zone}.String())
	}
	return strings.Join(texts, ", ")
}

// await waits until another candidate leads, and names it.
func (h *handover) await(ctx context.Context, m *move, request string, done LockMove) error {
	waiting, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	said := h.env.waiting("waiting up to %s for %s to hand lock %s over\n", h.timeout, m.from.Identity, m.lock.Name)
	err := h.cluster.await(waiting, []*move{m}, func(*move) {})
	said()
	if err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil && !m.over():
		h.env.changed = "the leader was asked, and may hand over yet; the request was taken back"
		soon, stop := context.WithTimeout(context.WithoutCancel(ctx), takeBackTimeout)
		defer stop()
		if err := h.takeBack(soon, m, request); err != nil {
			h.env.changed = "the leader was asked, and may hand over yet: " + err.Error()
		}
		return ctx.Err()
	case m.refused != "":
		return refused("%s refuses to hand lock %s over: %s", m.from, m.lock.Name, m.refused)
	case m.to == nil:
		return errors.Join(fmt.Errorf("lock %s was not handed over within %s: %s", m.lock.Name, h.timeout, m.waits), h.takeBack(ctx, m, request))
	case h.to.Zone != "" && m.to.Zone == "":
		return fmt.Errorf("lock %s went from %s to %s: whether that one is in zone %s is not known", m.lock.Name, m.from, m.to, h.to.Zone)
	case h.asks.Identity != "" && h.asks.Identity != m.to.Identity, !h.wants(m.to.Identity, m.to.Zone):
		return fmt.Errorf("lock %s went from %s to %s: %s did not take it", m.lock.Name, m.from, m.to, h.successor())
	}
	done.Result, done.To = "moved", m.to
	return h.report(done, "lock %s went from %s to %s\n", m.lock.Name, m.from, m.to)
}

// takeBackTimeout bounds how long an interrupted command goes on.
const takeBackTimeout = 5 * time.Second

// takeBack removes a request that was not answered.
func (h *handover) takeBack(ctx context.Context, m *move, request string) error {
	_, err := h.cluster.change(ctx, m.lock, func(lease *coordinationv1.Lease) error {
		if lease.Annotations[record.AnnotationRequest] == request {
			annotate(lease, record.AnnotationRequest, "")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("the request stays on the Lease: %w", err)
	}
	return nil
}
