// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/zonelect/zonelect/internal/inspect"
)

const statusLong = `Without LOCK, all locks of the namespace are listed.

States:
  held      the holder renews the lock
  waiting   the holder renews the lock, but its work has not begun: WAITING says why
  stale     a holder is named, but no renewal was seen
  expired   no renewal was seen for a whole lease: any candidate may take the lock
  released  the last holder gave the lock up, and nobody has taken it yet
  cleared   somebody removed the holder's name: the holder may still be at work
  free      nobody holds the lock
  absent    there is no Lease

Columns:
  LEADER         "nobody (was X)": X led last; "nobody? (was X)": X may still be working
  SINCE          for how long the leader has led; or how long ago the last one renewed or released
  LAST FAILOVER  when the leader took over from one that was lost, and how the lock had come free: see below
  NOBODY LED     for how long nobody led then, as the next leader saw it
  NEXT           who takes over if the leader falls silent, by what the candidates say of themselves and,
                 with one LOCK, by their pods and nodes; "-" if that is not known
  PHASE, LEGACY  the phase of a migration, and the state of the legacy lock

How a lock comes free:
  released   the holder gave it up, and nobody led for a second or longer
  expired    the holder did not renew it for a whole lease
  died       the holder's process was proven to have ended
  reclaimed  the holder took back its own lock, for example after an API outage
  cleared    somebody removed the holder's name, and the lease ran out
  deleted    somebody deleted the Lease, and the lease ran out

Ages go by this machine's clock, which may differ from the holder's. -w looks once a second, and prints a
line for each change.`

const statusExample = `  kubectl zonelect status                      # all locks of the namespace
  kubectl zonelect status my-operator          # one lock, with its candidates
  kubectl zonelect status my-operator -w       # what changes
  kubectl zonelect status -A -o wide           # the whole cluster, with pods and nodes
  kubectl zonelect status -A -o json | jq '.items[] | select(.status.nobodyLeads)'
  kubectl zonelect status my-operator -o jsonpath='{.status.leader.token}'`

// apiVersion is the version of the printed objects. No server knows it.
const apiVersion = "zonelect.dev/v1alpha1"

// LockStatus is the status of one lock. It is printed, and never stored.
type LockStatus struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Status inspect.Status `json:"status"`
}

// LockStatusList holds several.
type LockStatusList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []LockStatus `json:"items"`
}

// DeepCopyObject makes a LockStatus a runtime.Object. It is only printed, so that copies may
// share what it points to.
func (s *LockStatus) DeepCopyObject() runtime.Object { c := *s; return &c }

// DeepCopyObject does the same for a list.
func (l *LockStatusList) DeepCopyObject() runtime.Object { c := *l; return &c }

// statusCommand is one call of status.
type statusCommand struct {
	env     *environment
	printer printer
	cluster cluster
	zones   *inspect.Zones

	everywhere, watch bool
	observe           time.Duration
	legacyName        string
}

func newStatus(env *environment) *cobra.Command {
	s := &statusCommand{env: env}
	c := &cobra.Command{
		Use:     "status [LOCK...]",
		Short:   "Show who leads, in which zone, since when",
		Long:    statusLong,
		Example: statusExample,
		Args:    anyLocks,
		RunE:    func(c *cobra.Command, args []string) error { return failed(s.run(c.Context(), args)) },

		Annotations: roleStatus.marks(),
	}
	c.ValidArgsFunction = cobra.NoFileCompletions
	f := c.Flags()
	f.BoolVarP(&s.everywhere, "all-namespaces", "A", false, "All locks of the cluster.")
	f.BoolVarP(&s.watch, "watch", "w", false, "Print a line for each change.")
	f.DurationVar(&s.observe, "observe", 3*time.Second, "How long to watch a lock that looks stale by this machine's clock. 0: trust the clock.")
	f.StringVar(&s.legacyName, "legacy-name", "", "Name of the legacy lock. Default: the name on the Lease, or else the lock's.")
	s.printer.addFlags(c, "wide", "name")
	return c
}

func (s *statusCommand) run(ctx context.Context, args []string) error {
	switch {
	case s.everywhere && len(args) > 0:
		return usage("name a lock or use --all-namespaces, not both: -n chooses the lock's namespace")
	case s.legacyName != "" && len(args) != 1:
		return usage("--legacy-name is for one lock: name it")
	case s.observe < 0:
		return usage("--observe=%s must not be negative", s.observe)
	}
	s.printer.namespaces = s.everywhere
	if err := s.printer.complete(); err != nil {
		return err
	}
	var err error
	if s.cluster, err = s.env.cluster(roleStatus, s.everywhere); err != nil {
		return err
	}
	s.cluster.LegacyName, s.zones = s.legacyName, s.cluster.zones()
	if s.watch {
		return s.follow(ctx, args)
	}
	found, err := s.find(ctx, args)
	if err == nil && len(args) == 1 {
		err = s.cluster.Surroundings(ctx, &found[0])
	}
	if err == nil {
		err = s.cluster.Observe(ctx, found, s.env.now, s.observe)
	}
	if err == nil && len(found) == 0 {
		err = s.tellNothing(ctx)
	}
	if err != nil {
		return err
	}
	var list []LockStatus
	for _, e := range found {
		list = append(list, s.describe(e))
	}
	if len(args) == 1 {
		return s.printer.one(s.env.streams, list[0], s.env.now())
	}
	return s.printer.list(s.env.streams, list, s.env.now())
}

// find reads the locks with names, or if there are none, those of the namespace.
func (s *statusCommand) find(ctx context.Context, names []string) (found []inspect.Election, err error) {
	if len(names) == 0 {
		found, err = s.cluster.Elections(ctx, s.cluster.namespace)
	}
	for _, name := range names {
		e, err := s.cluster.Election(ctx, s.cluster.lock(name))
		if err == nil && e.Nothing() {
			err = s.cluster.absent(ctx, name)
		}
		if err != nil {
			return nil, err
		}
		found = append(found, e)
	}
	s.zones.Find(ctx, found)
	return found, err
}

// describe interprets an election, and adds who is next.
func (s *statusCommand) describe(e inspect.Election) LockStatus {
	status := LockStatus{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: "LockStatus"},
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name},
		Status:     e.Status(s.env.now()),
	}
	status.Status.Next = next(e, status.Status)
	return status
}

// tellNothing says that there are no locks. It returns an error if even the namespace does
// not exist.
func (s *statusCommand) tellNothing(ctx context.Context) error {
	unknown, err := s.cluster.checkNamespace(ctx, "note: ")
	if err != nil {
		return err
	}
	s.env.tell("No locks found in %s. To see a lock that no zonelect program uses yet, name it: 'kubectl zonelect status LOCK'.\n", s.cluster.scope())
	if unknown != "" {
		s.env.tell("%s\n", unknown)
	}
	return nil
}
