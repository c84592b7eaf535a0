// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/operator"
	"github.com/zonelect/zonelect/zone"
)

const timingLong = `Finds the timing of an election for what you know about your work and your cluster, and
shows what follows from it. It asks no cluster.

The first table has the settings, with the reason for each. The second has what follows
from them, beside two other timings: the default, which is also that of client-go and
controller-runtime, and that of OpenShift's operators. A failover is the longest time
from the fault until the next leader's work begins. With -o wide the mean stands before
it, and the formulas of the plan are shown.

PLANNED and ZONELECT use the same formulas. CLIENT-GO and OPENSHIFT are what client-go's
own elector makes of the same numbers: its followers read at intervals instead of
watching, it takes 45s to find a connection to a dead API server dead, and it releases
the lock before the work has stopped, so that two may work until it has.

The plan assumes one fault at a time, with all well before; requests that take no longer
than --round-trip once they reach a living API server; and that of four connections in a
row, at least one reaches such a server. Behind a Service with one of three servers gone
that fails once in 81 times, and costs 200ms more.

-o yaml prints the operator's flags, and the same as environment variables.`

const timingExample = `  # The API may be away for 30s when a zone dies, a new leader is needed in 45s
  kubectl zonelect timing --api-outage 30s --failover 45s --stop 5s

  # The same, to be put into a container of a Deployment
  kubectl zonelect timing --api-outage 30s --failover 45s --stop 5s -o yaml

  # Where each bound comes from, with means
  kubectl zonelect timing --drift 1% --round-trip 200ms -o wide`

// timingCommand is one call of timing.
type timingCommand struct {
	env    *environment
	wish   zone.Wish
	output string
}

var timingFormats = []string{"wide", "yaml"}

func newTiming(env *environment) *cobra.Command {
	// The default wishes are those that the default timing fulfills.
	t := &timingCommand{env: env, wish: zone.Wish{
		APIOutage: 5 * time.Second, Stop: 4800 * time.Millisecond, MaxClockDrift: timing.DefaultMaxClockDrift,
		RoundTrip: zone.RoundTripDefault, Candidates: zone.CandidatesDefault,
	}}
	c := &cobra.Command{
		Use:               "timing",
		Short:             "Find the timing for what you need, and see what follows",
		Long:              timingLong,
		Example:           timingExample,
		Args:              noArgument,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(*cobra.Command, []string) error { return failed(t.run()) },
	}
	f := c.Flags()
	f.DurationVar(&t.wish.APIOutage, "api-outage", t.wish.APIOutage, "How long the API may be unavailable, as when a zone dies, before the leader loses its term.")
	f.DurationVar(&t.wish.Failover, "failover", 0, "The longest time until another candidate leads when the leader's zone dies and the API is reachable. 0 is no limit.")
	f.DurationVar(&t.wish.Stop, "stop", t.wish.Stop, "How long the work takes to stop.")
	f.Var((*percent)(&t.wish.MaxClockDrift), "drift", "How much the rates of two machines' clocks may differ. 0 is the default.")
	f.DurationVar(&t.wish.RoundTrip, "round-trip", t.wish.RoundTrip, "The time that a request to the API and its answer seldom exceed.")
	f.IntVar(&t.wish.Candidates, "candidates", t.wish.Candidates, "How many candidates there are.")
	f.IntVar(&t.wish.Zones, "zones", 0, "How many zones they are in. 0 is three, or as many as there are candidates.")
	f.BoolVar(&t.wish.Exclusive, "exclusive", false, "No client-go candidate shares the lock.")
	f.StringVarP(&t.output, "output", "o", "", fmt.Sprintf("Output format. One of: (%s).", strings.Join(timingFormats, ", ")))
	for _, name := range []string{"api-outage", "failover", "stop", "drift", "round-trip", "candidates", "zones"} {
		_ = c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions) // it fails for a flag that does not exist
	}
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(timingFormats, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (t *timingCommand) run() error {
	if t.output != "" && !slices.Contains(timingFormats, t.output) {
		return usage("--output=%s: use one of %s", t.output, strings.Join(timingFormats, ", "))
	}
	plan, err := t.wish.Plan()
	if errors.Is(err, zone.ErrImpossible) {
		return usage("%w", err)
	}
	if err != nil {
		return err
	}
	if t.output == "yaml" {
		return printFlags(t.env.streams.Out, plan)
	}
	return printTiming(t.env.streams.Out, plan, t.output == "wide")
}

// printTiming prints the plan's settings, and what follows from them.
func printTiming(out io.Writer, plan zone.Plan, wide bool) error {
	table := printers.GetNewTabWriter(out)
	line := func(cells ...string) { tell(table, "%s\n", strings.Join(cells, "\t")) }
	line("SETTING", "VALUE", "WHY")
	for _, n := range plan.Numbers {
		line(n.Name, n.Value.Round(time.Millisecond).String(), n.Why)
	}
	if err := flush(table); err != nil {
		return err
	}
	line("")

	outlooks := []outlook{{"PLANNED", plan.Timing, plan.Bounds}}
	for _, o := range others {
		t := o.timing
		t.MaxClockDrift, t.Exclusive = plan.Timing.MaxClockDrift, plan.Timing.Exclusive
		t = t.WithDefaults()
		outlooks = append(outlooks, outlook{"ZONELECT", t, zone.BoundsOf(t, plan.Wish)}, outlook{o.name, t, clientGo(t, plan.Wish)})
	}
	head, second := []string{"WHAT FOLLOWS"}, []string{"LeaseDuration/RenewDeadline/RenewInterval"}
	for _, o := range outlooks {
		head = append(head, o.name)
		second = append(second, fmt.Sprintf("%s/%s/%s", brief(o.timing.LeaseDuration), brief(o.timing.RenewDeadline), brief(o.timing.RenewInterval)))
	}
	if wide {
		head = append(head, "BY THE FORMULA, AS PLANNED")
	}
	line(head...)
	line(second...)
	for i, planned := range consequences(plan.Wish, plan.Bounds) {
		cells := []string{planned.what}
		for _, o := range outlooks {
			cells = append(cells, consequences(plan.Wish, o.bounds)[i].cell(wide))
		}
		if wide && planned.count == "" {
			cells = append(cells, planned.bound.Worst.String())
		}
		line(cells...)
	}
	return flush(table)
}

// others are the timings to compare with, each with the elector that uses it now.
var others = []outlook{{name: "CLIENT-GO"}, {name: "OPENSHIFT", timing: openShift}}

// outlook is how an elector behaves with a timing.
type outlook struct {
	name   string
	timing election.Timing
	bounds zone.Bounds
}

// consequence is a row of the table: of a duration, or of a number.
type consequence struct {
	what  string
	bound zone.Bound
	count string
}

func consequences(w zone.Wish, b zone.Bounds) []consequence {
	if b.OutageSurvived.Total() <= 0 {
		b.OutageSurvived = nil
	}
	return []consequence{
		{what: fmt.Sprintf("failover: leader told to stop, which takes %s", brief(w.Stop)), bound: b.Stop},
		{what: "failover: leader killed, or its zone dark", bound: b.Kill},
		{what: "  and all used the API server in that zone", bound: b.DeadServer},
		{what: fmt.Sprintf("  and no API for %s from then on", brief(w.APIOutage)), bound: b.LossInOutage},
		{what: "failover: from the proof that it is dead", bound: b.Proof},
		{what: "  more, if those who go first are dead too", bound: zone.Bound{Worst: b.HeadStart}},
		{what: "API outage that the leader surely survives", bound: zone.Bound{Worst: b.OutageSurvived}},
		{what: "  after a longer one, leads again in", bound: b.Recovery},
		{what: "time for work to stop when the term is lost", bound: zone.Bound{Worst: b.StopLeft}},
		{what: "writes per day", count: strconv.Itoa(b.WritesPerDay)},
		{what: "reads per day and follower", count: strconv.Itoa(b.ReadsPerDay)},
	}
}

// cell is one elector's value for it.
func (c consequence) cell(means bool) string {
	switch {
	case c.count != "":
		return c.count
	case c.bound.Worst == nil:
		return "-"
	case means && c.bound.Mean != nil:
		return brief(c.bound.Mean.Total()) + " / " + brief(c.bound.Worst.Total())
	}
	return brief(c.bound.Worst.Total())
}

// brief is a duration in seconds, so that people can compare it.
func brief(d time.Duration) string {
	return strconv.FormatFloat(math.Round(d.Seconds()*100)/100, 'f', -1, 64) + "s"
}

// printFlags prints the plan as the operator's flags and environment variables.
func printFlags(out io.Writer, plan zone.Plan) error {
	w := plan.Wish
	failover := "of any length"
	if w.Failover > 0 {
		failover = w.Failover.String()
	}
	text := &strings.Builder{}
	tell(text, "# API outage %v, failover %s, stop %v, clock drift %s, round trip %v.\n", w.APIOutage, failover, w.Stop, (*percent)(&w.MaxClockDrift), w.RoundTrip)
	tell(text, "# Use either the flags or the environment, with the same values in all candidates.\n")
	if w.MaxClockDrift != timing.DefaultMaxClockDrift || w.Exclusive {
		tell(text, "# In the program set Timing.MaxClockDrift to %v and Exclusive to %v: they have no flags.\n", w.MaxClockDrift, w.Exclusive)
	}
	flags := (&cobra.Command{}).Flags()
	(&operator.Options{Timing: plan.Timing}).AddFlags(flags)
	args, env := &strings.Builder{}, &strings.Builder{}
	for _, name := range []string{"leader-elect-lease-duration", "leader-elect-renew-deadline", "leader-elect-retry-period", "leader-elect-stop-timeout"} {
		value := flags.Lookup(name).DefValue
		tell(args, "- --%s=%s\n", name, value)
		tell(env, "- name: %s\n  value: %s\n", strings.ToUpper(strings.ReplaceAll(name, "-", "_")), value)
	}
	_, err := fmt.Fprintf(out, "%sargs:\n%senv:\n%s", text, args, env)
	return err
}

// percent is a flag for a fraction, such as 1% or 0.01.
type percent float64

func (p *percent) String() string { return fmt.Sprintf("%g%%", float64(*p)*100) }

func (p *percent) Set(s string) error {
	number, hundredths := strings.CutSuffix(strings.TrimSpace(s), "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil {
		return fmt.Errorf("use a percentage such as 1%%, or a fraction such as 0.01")
	}
	if hundredths {
		f /= 100
	}
	*p = percent(f)
	return nil
}

func (p *percent) Type() string { return "percent" }
