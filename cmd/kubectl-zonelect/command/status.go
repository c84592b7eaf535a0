// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/inspect"
)

const statusLong = `States:
  held      the holder renews the lock
  waiting   the holder renews the lock, but its work has not begun: a note says why
  stale     a holder is named, but no renewal was seen
  expired   no renewal was seen for a whole lease: any candidate may take the lock
  released  the last holder gave the lock up, and nobody has taken it yet
  cleared   somebody removed the holder's name: the holder may still be at work
  free      nobody holds the lock
  absent    there is no Lease

Columns:
  LEADER         "nobody (was X)": X led last; "nobody? (was X)": X may still be working
  SINCE          for how long the leader has led; or how long ago the last one renewed or released
  LAST FAILOVER  when the leader took over from one that was lost, how the lock had come free (see below),
                 and for how long nobody led then, as the leader saw it
  PHASE, LEGACY  the phase of a migration, and the state of the legacy lock

How a lock comes free:
  released   the holder gave it up, and nobody led for a second or longer
  expired    the holder did not renew it for a whole lease
  died       the holder's process was proven to have ended
  reclaimed  the holder took back its own lock, for example after an API outage
  cleared    somebody removed the holder's name, and the lease ran out
  deleted    somebody deleted the Lease, and the lease ran out

Ages go by this machine's clock, which may differ from the holder's: a lock that looks stale is watched for
three seconds. -w looks once a second, and prints a line for each change. doctor says what may become a problem.`

const statusExample = `  kubectl zonelect status                      # all locks of the namespace
  kubectl zonelect status my-operator          # one lock, with its candidates
  kubectl zonelect status my-operator -w       # what changes
  kubectl zonelect status -A                   # the whole cluster
  kubectl zonelect status -A -o json | jq '.items[] | select(.status.nobodyLeads)'`

// statusCommand is one call of status.
type statusCommand struct {
	env     *environment
	printer printer
	cluster cluster

	everywhere, watch bool
}

func newStatus(env *environment) *cobra.Command {
	s := &statusCommand{env: env}
	c := &cobra.Command{
		Use:     "status [LOCK...]",
		Short:   "Show who leads, in which zone, since when",
		Long:    statusLong,
		Example: statusExample,
		RunE:    func(c *cobra.Command, args []string) error { return s.run(c.Context(), args) },
	}
	f := c.Flags()
	f.BoolVarP(&s.everywhere, "all-namespaces", "A", false, "All locks of the cluster.")
	f.BoolVarP(&s.watch, "watch", "w", false, "Print a line for each change.")
	s.printer.addFlags(c)
	return c
}

func (s *statusCommand) run(ctx context.Context, args []string) error {
	if s.everywhere && len(args) > 0 {
		return usage("name a lock or use --all-namespaces, not both: -n chooses the lock's namespace")
	}
	err := s.printer.complete()
	if err != nil {
		return err
	}
	if s.cluster, err = s.env.cluster("status", s.everywhere); err != nil {
		return err
	}
	if s.watch {
		return s.follow(ctx, args)
	}
	found, err := s.find(ctx, args)
	if err == nil && len(args) == 1 {
		err = s.cluster.Surroundings(ctx, &found[0])
	}
	if err == nil {
		err = s.cluster.Observe(ctx, found, s.env.now)
	}
	if err != nil {
		return err
	}
	if len(found) == 0 {
		s.env.tell(noLocks, s.cluster.scope())
	}
	return s.print(found, len(args) == 1)
}

// find reads the locks with names, or if there are none, those of the namespace.
func (s *statusCommand) find(ctx context.Context, names []string) (found []inspect.Election, err error) {
	if len(names) == 0 {
		return s.cluster.Elections(ctx, s.cluster.namespace)
	}
	for _, name := range names {
		e, err := s.cluster.Election(ctx, s.cluster.lock(name))
		if err == nil && e.Nothing() {
			err = s.cluster.absent(name)
		}
		if err != nil {
			return nil, err
		}
		found = append(found, e)
	}
	return found, nil
}

const kindOfStatus = "LockStatus"

// lockStatus is what is printed of a lock for programs.
func lockStatus(s inspect.Status) any { return map[string]any{"status": s} }

// print prints locks; one alone with its candidates.
func (s *statusCommand) print(found []inspect.Election, alone bool) error {
	now, out := s.env.now(), s.env.streams.Out
	if s.printer.objects != nil {
		if alone {
			return s.printer.object(out, kindOfStatus, found[0].NamespacedName, lockStatus(found[0].Status(now)))
		}
		items := []any{}
		for _, e := range found {
			o, err := object(kindOfStatus, e.NamespacedName, lockStatus(e.Status(now)))
			if err != nil {
				return err
			}
			items = append(items, o.Object)
		}
		return s.printer.object(out, kindOfStatus+"List", types.NamespacedName{}, map[string]any{"items": items})
	}
	names, rows := s.table(found, now)
	err := printTable(out, names, rows)
	for _, e := range found {
		status := e.Status(now)
		for _, warning := range status.Warnings {
			s.env.tell("warning: %s: %s\n", e.Name, warning)
		}
		for _, note := range status.Notes {
			s.env.tell("note: %s: %s\n", e.Name, note)
		}
		if alone && len(status.Candidates) > 0 {
			names, rows := candidates(status)
			err = errors.Join(err, say(out, "\n"), printTable(out, names, rows))
		}
	}
	return err
}
