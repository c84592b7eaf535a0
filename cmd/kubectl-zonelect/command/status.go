// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"slices"
	"strings"
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
  LAST FAILOVER  when the leader took over from one that was lost, and how the lock had come free
  NOBODY LED     for how long nobody led then
  NEXT           who takes over if the leader falls silent
  LEASE LEFT     for how long the others leave a silent leader the lock
  TOKEN          the fencing token of the leader's term
  PHASE, LEGACY  the phase of a migration, and the state of the legacy lock`

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

// describe interprets an election; now is the wall clock.
func describe(e inspect.Election, now time.Time) LockStatus {
	return LockStatus{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: "LockStatus"},
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name},
		Status:     e.Status(now),
	}
}

// statusCommand is one call of status.
type statusCommand struct {
	env     *environment
	printer printer
	cluster cluster

	everywhere, watch bool
	observe           time.Duration
	legacyName        string
	color             string
	vitals            vitals
	zones             *inspect.Zones
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
	f.BoolVarP(&s.watch, "watch", "w", false, "Keep watching, and print what changes.")
	f.DurationVar(&s.observe, "observe", 3*time.Second, "How long to watch a lock that looks stale by this machine's clock. 0: trust the clock.")
	f.StringVar(&s.legacyName, "legacy-name", "", "Name of the legacy lock. Default: the name on the Lease, or else the lock's.")
	f.StringVar(&s.color, "color", colorAuto, "auto (on a terminal without NO_COLOR), always or never.")
	_ = c.RegisterFlagCompletionFunc("color", cobra.FixedCompletions(colorModes, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	s.printer.addFlags(c, "wide", "name")
	return c
}

func (s *statusCommand) run(ctx context.Context, args []string) error {
	if err := s.complete(args); err != nil {
		return err
	}
	var err error
	if s.cluster, err = s.env.cluster(roleStatus, s.everywhere); err != nil {
		return err
	}
	s.cluster.LegacyName = s.legacyName
	s.vitals, s.zones = vitals{reader: s.cluster.Reader}, s.cluster.zones()
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	switch {
	case s.watch:
		return s.follow(ctx, name)
	case len(args) == 1:
		return s.one(ctx, name)
	}
	return s.all(ctx, args)
}

func (s *statusCommand) complete(args []string) error {
	switch {
	case s.watch && len(args) > 1:
		return usage("--watch shows one LOCK, or all: name one, or none")
	case s.everywhere && len(args) > 0:
		return usage("name a lock or use --all-namespaces, not both: -n chooses the lock's namespace")
	case s.legacyName != "" && len(args) != 1:
		return usage("--legacy-name is for one lock: name it")
	case s.observe < 0:
		return usage("--observe=%s must not be negative", s.observe)
	case !slices.Contains(colorModes, s.color):
		return usage("--color=%s: use one of %s", s.color, strings.Join(colorModes, ", "))
	}
	s.printer.namespaces, s.printer.times = s.everywhere, s.watch
	s.printer.paint = s.env.colors(s.color)
	s.printer.width, _ = s.env.size()
	return s.printer.complete()
}

func (s *statusCommand) one(ctx context.Context, name string) error {
	found, err := s.cluster.Election(ctx, s.cluster.lock(name))
	if err != nil {
		return err
	}
	if found.Nothing() {
		return s.cluster.absent(ctx, name)
	}
	if err := s.cluster.Surroundings(ctx, &found); err != nil {
		return err
	}
	list := []inspect.Election{found}
	s.zones.Find(ctx, list)
	if err := s.cluster.Observe(ctx, list, s.env.now, s.observe); err != nil {
		return err
	}
	status, err := s.describe(ctx, list[0])
	if err != nil {
		return err
	}
	return s.printer.one(s.env.streams, status, s.env.now())
}

// all prints several locks: those with names, or if there are none, those of the namespace.
func (s *statusCommand) all(ctx context.Context, names []string) error {
	read := func() ([]inspect.Election, error) { return s.cluster.Elections(ctx, s.cluster.namespace) }
	if len(names) > 0 {
		read = func() ([]inspect.Election, error) { return s.named(ctx, names) }
	}
	found, err := read()
	if err != nil {
		return err
	}
	if err := s.cluster.Observe(ctx, found, s.env.now, s.observe); err != nil {
		return err
	}
	s.zones.Find(ctx, found)
	list := make([]LockStatus, 0, len(found))
	for _, f := range found {
		status, err := s.describe(ctx, f)
		if err != nil {
			return err
		}
		list = append(list, status)
	}
	if len(list) == 0 {
		if err := s.tellNothing(ctx); err != nil {
			return err
		}
	}
	if err := s.printer.list(s.env.streams, list, s.env.now()); err != nil {
		return err
	}
	if note := s.vitals.note(); note != "" && s.printer.forPeople() {
		s.env.tell("%s\n", note)
	}
	return nil
}

// named reads locks by their names.
func (s *statusCommand) named(ctx context.Context, names []string) ([]inspect.Election, error) {
	var all []inspect.Election
	for _, name := range names {
		found, err := s.cluster.Election(ctx, s.cluster.lock(name))
		if err == nil && found.Nothing() {
			err = s.cluster.absent(ctx, name)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, found)
	}
	return all, nil
}

// describe interprets an election, and adds who is next.
func (s *statusCommand) describe(ctx context.Context, e inspect.Election) (LockStatus, error) {
	status := describe(e, s.env.now())
	return status, s.vitals.next(ctx, e, &status.Status, s.env.now())
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
