// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/demo"
	"github.com/zonelect/zonelect/internal/inspect"
)

const demoLong = `Shows on the cluster of the current context what zonelect promises. Three candidates run as processes
of this machine, with the default timing, and elect a leader there. The leader gets SIGTERM. The next
one is killed (SIGKILL). The connection of the one after that is cut, and restored.

It first says what it will create: Leases in the namespace, with the label
app.kubernetes.io/managed-by=zonelect-demo. It removes them at the end, after Ctrl-C and when it is
killed too. It tries everything that it needs before it begins, and takes less than a minute.

Each promise gets a line with its figure, the largest figure that keeps it, and a link to what explains it:
  stop          after SIGTERM, the next leader begins when the last one has stopped
  kill          after SIGKILL, it begins when the lease has ended, and not before
  trust         a leader without a connection stops its work before others may lead
  cut           the next leader begins when that lease has ended
  heal          a former leader whose connection is back follows
  one-leader    no two candidates work at the same time
  tokens        the fencing token grows with each term
  nothing-left  no Lease and no process is left

What is allowed follows from the timing and from how long requests take, which is measured before. The
exit code is 1 if a promise was not kept. ClusterRole zonelect-demo, bound in the namespace, grants what
the command needs.`

const demoExample = `  # In the namespace of the current context
  kubectl zonelect demo

  # Elsewhere
  kubectl zonelect demo --context kind-trial -n scratch

  # The report for programs
  kubectl zonelect demo -o json | jq '.promises[] | select(.result != "kept")'`

// DemoReport is what a demonstration showed. It is printed, and never stored as such.
type DemoReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"` // the name is that of the lock

	Context string `json:"context,omitempty"`
	Server  string `json:"server"`
	// Timing is that of the candidates.
	LeaseDurationSeconds float64 `json:"leaseDurationSeconds"`
	RenewDeadlineSeconds float64 `json:"renewDeadlineSeconds"`
	RenewIntervalSeconds float64 `json:"renewIntervalSeconds"`
	// RequestMilliseconds is how long requests took before: the median, and the slowest.
	RequestMilliseconds        float64 `json:"requestMilliseconds"`
	SlowestRequestMilliseconds float64 `json:"slowestRequestMilliseconds"`

	Seconds  float64        `json:"seconds"` // that it took
	Broken   int            `json:"broken"`
	Unknown  int            `json:"unknown"`
	Promises []demo.Promise `json:"promises"`
	Terms    []demo.Term    `json:"terms"`
}

// DeepCopyObject makes a DemoReport a runtime.Object, as that of a LockStatus.
func (r *DemoReport) DeepCopyObject() runtime.Object { c := *r; return &c }

// demoCommand is one call of demo.
type demoCommand struct {
	env        *environment
	printer    printer
	cluster    cluster
	connection []string // the flags by which candidates reach the same cluster

	context string // of the kubeconfig; empty without one
	server  string
	lock    string
	began   time.Time
	pace    pace
	cast    *cast
	seen    demo.Seen
}

func newDemo(env *environment) *cobra.Command {
	d := &demoCommand{env: env}
	c := &cobra.Command{
		Use:     "demo",
		Short:   "Show on your own cluster what zonelect promises",
		Long:    demoLong,
		Example: demoExample,
		Args:    noArgument,
		RunE: func(c *cobra.Command, _ []string) error {
			d.connection = connectionFlags(c)
			return failed(d.run(c.Context()))
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		Annotations:       roleDemo.marks(),
	}
	d.printer.addFlags(c)
	return c
}

func (d *demoCommand) run(ctx context.Context) (err error) {
	if err := d.printer.complete(); err != nil {
		return err
	}
	d.began, d.lock = d.env.now(), "zonelect-demo-"+rand.String(5)
	d.env.changed = nothing
	if err := d.announce(); err != nil {
		return err
	}
	if err := d.prepare(ctx); err != nil {
		return because{fmt.Sprintf("%v; nothing was created", err), err}
	}
	err = d.show(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	return d.conclude()
}

// out is where people read how it goes: beside the report for programs.
func (d *demoCommand) out() io.Writer {
	if d.printer.objects != nil {
		return d.env.streams.ErrOut
	}
	return d.env.streams.Out
}

// say prints a line of what happens now, with the time since the beginning.
func (d *demoCommand) say(format string, args ...any) { d.sayAt(d.env.now(), format, args...) }

func (d *demoCommand) sayAt(at time.Time, format string, args ...any) {
	tell(d.out(), fmt.Sprintf("%6.1fs  ", at.Sub(d.began).Seconds())+format+"\n", args...)
}

// conclude prints what was promised and what was kept.
func (d *demoCommand) conclude() error {
	report := d.report()
	if err := d.print(report); err != nil {
		return err
	}
	switch {
	case report.Broken > 0:
		return fmt.Errorf("%s not kept: %s has what to look at", inspect.Many(report.Broken, "promise"), demo.Page)
	case report.Unknown > 0:
		return fmt.Errorf("%s could not be judged: run it again", inspect.Many(report.Unknown, "promise"))
	}
	return nil
}

func (d *demoCommand) report() DemoReport {
	t, judged := d.seen.Timing, d.seen.Judge()
	return DemoReport{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: "DemoReport"},
		ObjectMeta: metav1.ObjectMeta{Namespace: d.cluster.namespace, Name: d.lock},
		Context:    d.context, Server: d.server,
		LeaseDurationSeconds: t.LeaseDuration.Seconds(), RenewDeadlineSeconds: t.RenewDeadline.Seconds(), RenewIntervalSeconds: t.RenewInterval.Seconds(),
		RequestMilliseconds: inFloat(d.pace.median), SlowestRequestMilliseconds: inFloat(d.pace.slowest),
		Seconds: d.env.now().Sub(d.began).Seconds(),
		Broken:  demo.Count(judged, demo.Broken), Unknown: demo.Count(judged, demo.Unknown), Promises: judged, Terms: demo.Terms(d.seen.Events),
	}
}

func inFloat(t time.Duration) float64 { return float64(t.Microseconds()) / 1000 }

// marks are what stands before a promise.
var marks = map[demo.Result]string{demo.Kept: "✓", demo.Broken: "✗", demo.Unknown: "?"}

func (d *demoCommand) print(r DemoReport) error {
	out := d.env.streams.Out
	if d.printer.objects != nil {
		return printObject(out, d.printer.objects, &r)
	}
	tell(out, "\n")
	for _, p := range r.Promises {
		tell(out, "%s %-14s%s\n  %-14s%s\n", marks[p.Result], p.Name, p.Text, "", p.Link)
	}
	tell(out, "\n")
	if r.Broken+r.Unknown > 0 {
		return say(out, "%d of %s kept, in %.0f s.\n", len(r.Promises)-r.Broken-r.Unknown, inspect.Many(len(r.Promises), "promise"), r.Seconds)
	}
	return say(out, "All %s were kept, in %.0f s.\n", inspect.Many(len(r.Promises), "promise"), r.Seconds)
}
