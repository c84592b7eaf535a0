// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/zonelect/zonelect/internal/inspect"
)

const historyLong = `The newest of the last 20 terms comes last. The lock's own Lease keeps them.

CAUSE is how the lock had come free:
  absent         there was no Lease
  released       the holder gave the lock up
  expired        the holder did not renew the lock for a whole lease
  died           the holder's process was proven to have ended
  reclaimed      the holder took back its own lock, for example after an API outage
  cleared        somebody removed the holder's name, and the lease ran out
  deleted        somebody deleted the Lease, and the lease ran out
  other-program  another program took the lock, such as client-go's elector

ClusterRole zonelect-status grants the rights.`

const historyExample = `  kubectl zonelect history my-operator
  kubectl zonelect history my-operator -o wide     # to the millisecond
  kubectl zonelect history my-operator -o json | jq '.history.terms[] | select(.cause == "expired")'`

// LockHistory is the history of one lock. It is printed, and never stored as such.
type LockHistory struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	History inspect.History `json:"history"`
}

// DeepCopyObject makes a LockHistory a runtime.Object, as that of a LockStatus.
func (l *LockHistory) DeepCopyObject() runtime.Object { c := *l; return &c }

// historyCommand is one call of history.
type historyCommand struct {
	env     *environment
	printer printer
	cluster cluster
}

func newHistory(env *environment) *cobra.Command {
	h := &historyCommand{env: env}
	c := &cobra.Command{
		Use:     "history LOCK",
		Short:   "Show who led before, and for how long nobody did",
		Long:    historyLong,
		Example: historyExample,
		Args:    one("LOCK"),
		RunE:    func(c *cobra.Command, args []string) error { return failed(h.run(c.Context(), args[0])) },

		Annotations: roleStatus.marks(),
	}
	c.ValidArgsFunction = cobra.NoFileCompletions
	h.printer.addFlags(c, "wide")
	return c
}

func (h *historyCommand) run(ctx context.Context, name string) error {
	if err := h.printer.complete(); err != nil {
		return err
	}
	var err error
	if h.cluster, err = h.env.cluster(roleStatus, false); err != nil {
		return err
	}
	found, err := h.cluster.Lock(ctx, h.cluster.lock(name))
	if err != nil {
		return err
	}
	if found.Lease == nil {
		return h.cluster.withoutLease(ctx, name)
	}
	now := h.env.now()
	return h.print(LockHistory{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: "LockHistory"},
		ObjectMeta: metav1.ObjectMeta{Namespace: found.Namespace, Name: found.Name},
		History:    found.History(now),
	}, now)
}

// withoutLease is the error for a lock that has no Lease, and so no history.
func (c cluster) withoutLease(ctx context.Context, name string) error {
	found, err := c.Election(ctx, c.lock(name))
	if err != nil {
		return err
	}
	if found.Nothing() {
		return c.absent(ctx, name)
	}
	return fmt.Errorf("lock %s in namespace %s has no history: it has no Lease yet, and a lock on a ConfigMap or Endpoints alone keeps none", name, c.namespace)
}

func (h *historyCommand) print(l LockHistory, now time.Time) error {
	p, streams := &h.printer, h.env.streams
	if p.objects != nil {
		return printObject(streams.Out, p.objects, &l)
	}
	if err := h.terms(l.History.Terms, now); err != nil {
		return err
	}
	tellAll(streams.ErrOut, remarks(l.Name, l.History.Findings))
	return nil
}

// termColumns are those of a history's table.
var termColumns = []struct {
	name string
	wide bool
	cell func(inspect.Term, time.Time) string
}{
	{"Token", false, func(t inspect.Term, _ time.Time) string { return number(t.Token) }},
	{"Since", false, func(t inspect.Term, now time.Time) string {
		if t.Since == nil {
			return ""
		}
		text, age := t.Since.UTC().Format(timeFormat), now.Sub(t.Since.Time)
		if age >= 0 { // else the clocks differ
			text += " (" + duration.HumanDuration(age) + ")"
		}
		return text
	}},
	{"Holder", false, func(t inspect.Term, _ time.Time) string { return t.Holder }},
	{"Zone", false, func(t inspect.Term, _ time.Time) string { return t.Zone }},
	{"Cause", false, func(t inspect.Term, _ time.Time) string { return t.Cause }},
	{"Led for", false, func(t inspect.Term, _ time.Time) string {
		return lasting(t.LedForMilliseconds, duration.HumanDuration)
	}},
	{"Nobody led", false, func(t inspect.Term, _ time.Time) string { return lasting(t.NobodyLedMilliseconds, gap) }},
	{"Exactly since", true, func(t inspect.Term, _ time.Time) string {
		if t.Since == nil {
			return ""
		}
		return t.Since.UTC().Format("2006-01-02T15:04:05.000Z")
	}},
}

// lasting is the text of a time in milliseconds; empty if it is not known.
func lasting(milliseconds *int64, text func(time.Duration) string) string {
	if milliseconds == nil {
		return ""
	}
	return text(time.Duration(*milliseconds) * time.Millisecond)
}

// gap is the text of a time without a leader, which may be a few milliseconds.
func gap(d time.Duration) string {
	if d < 10*time.Minute {
		return d.String()
	}
	return duration.HumanDuration(d)
}

// terms prints a table of terms.
func (h *historyCommand) terms(all []inspect.Term, now time.Time) error {
	var names []string
	rows := make([][]string, len(all))
	for _, c := range termColumns {
		if c.wide && h.printer.output != "wide" {
			continue
		}
		names = append(names, c.name)
		for i, t := range all {
			rows[i] = append(rows[i], c.cell(t, now))
		}
	}
	return printTable(h.env.streams.Out, h.printer.tables, names, rows)
}
