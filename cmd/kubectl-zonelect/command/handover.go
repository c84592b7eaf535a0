// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/internal/requests"
	"github.com/zonelect/zonelect/locks"
)

const handoverLong = `The leader's work stops, and another candidate leads within milliseconds. Without --to and --to-zone, the
successor is the candidate that would come first if the leader died.

The leader refuses (exit code 3) if it does not know the successor, or if the successor is unhealthy. If the leader
has not answered within --timeout, or if you interrupt the command, the command withdraws the request.

ClusterRole zonelect-shift grants the rights: get, list and update on leases.`

const handoverExample = `  kubectl zonelect handover my-operator                      # before work on a node
  kubectl zonelect handover my-operator --to-zone zone-b`

// handover is one call of the command.
type handover struct {
	env     *environment
	cluster cluster
	to      locks.Successor
	timeout time.Duration
}

func newHandover(env *environment) *cobra.Command {
	h := &handover{env: env}
	c := &cobra.Command{
		Use:     "handover LOCK",
		Short:   "Move leadership to another candidate",
		Long:    handoverLong,
		Example: handoverExample,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			switch f := c.Flags(); {
			case f.Changed("to") && f.Changed("to-zone"):
				return usage("use either --to or --to-zone, not both")
			case f.Changed("to") && h.to.Identity == "", f.Changed("to-zone") && h.to.Zone == "":
				return usage("the next leader is empty") // as a script's variable may be
			}
			return h.run(c.Context(), args[0])
		},
	}
	f := c.Flags()
	f.StringVar(&h.to.Identity, "to", "", "The identity of the next leader.")
	f.StringVar(&h.to.Zone, "to-zone", "", "The zone of the next leader.")
	f.DurationVar(&h.timeout, "timeout", time.Minute, "How long to wait.")
	return c
}

func (h *handover) run(ctx context.Context, name string) error {
	var err error
	if h.cluster, err = h.env.cluster("shift", false); err != nil {
		return err
	}
	e, err := h.cluster.Lock(ctx, h.cluster.lock(name))
	if err != nil {
		return err
	}
	leader := e.Leader()
	_, ours := inspect.DetailsOf(e.Snapshot().Record)
	switch {
	case e.Lease == nil:
		return h.cluster.absent(name)
	case leader == nil:
		return refused("nobody holds lock %s: the first candidate that comes takes it", name)
	case !ours:
		return refused("%s, which holds lock %s, is not a zonelect candidate: it ignores requests", leader.Identity, name)
	}
	m := &move{NamespacedName: e.NamespacedName, from: leader, waits: leader.Identity + " has not answered"}
	request := requests.FormatHandover(requests.Handover{Holder: leader.Identity, Successor: h.to})
	if leader.Identity == h.to.Identity || h.to.Zone != "" && leader.Zone == h.to.Zone {
		return say(h.env.streams.Out, "lock %s is led by %s already\n", name, leader)
	}
	if err := h.ask(ctx, m, request); err != nil {
		return err
	}
	return h.await(ctx, m, request)
}

// ask writes the request to the Lease.
func (h *handover) ask(ctx context.Context, m *move, request string) error {
	return h.cluster.change(ctx, m.NamespacedName, func(lease *coordinationv1.Lease) error {
		if now := inspect.LeaderOf(record.Read(lease)); now == nil || now.Identity != m.from.Identity {
			return refused("lock %s has changed hands meanwhile: try again", m.Name)
		}
		annotate(lease, record.AnnotationRequest, request)
		annotate(lease, record.AnnotationRefused, "")
		return nil
	})
}

// await waits until another candidate leads, and names it.
func (h *handover) await(ctx context.Context, m *move, request string) error {
	said := h.env.waiting("waiting up to %s for %s to hand lock %s over\n", h.timeout, m.from.Identity, m.Name)
	err := h.cluster.await(ctx, h.timeout, []*move{m})
	said()
	if err == nil && !m.over() {
		err = cmp.Or(ctx.Err(), fmt.Errorf("lock %s was not handed over within %s: %s", m.Name, h.timeout, m.waits))
	}
	switch {
	case err != nil:
		if err := h.takeBack(ctx, m, request); err != nil {
			h.env.tell("the leader may hand over yet: the request stays on the Lease\n")
			return fmt.Errorf("take the request back: %w", err)
		}
		return err
	case m.refused != "":
		return refused("%s refuses to hand lock %s over: %s", m.from, m.Name, m.refused)
	case h.to.Identity != "" && h.to.Identity != m.to.Identity || h.to.Zone != "" && h.to.Zone != m.to.Zone:
		wanted := cmp.Or(h.to.Identity, "a candidate in zone "+h.to.Zone)
		return fmt.Errorf("lock %s went from %s to %s: %s did not take it", m.Name, m.from, m.to, wanted)
	}
	return say(h.env.streams.Out, "lock %s went from %s to %s\n", m.Name, m.from, m.to)
}

// takeBackTimeout bounds how long an interrupted command goes on.
const takeBackTimeout = 5 * time.Second

// takeBack removes a request that was not answered.
func (h *handover) takeBack(ctx context.Context, m *move, request string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeBackTimeout)
	defer cancel()
	return h.cluster.change(ctx, m.NamespacedName, func(lease *coordinationv1.Lease) error {
		if lease.Annotations[record.AnnotationRequest] == request {
			annotate(lease, record.AnnotationRequest, "")
		}
		return nil
	})
}
