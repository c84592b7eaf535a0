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

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/clientgo"
	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/heartbeat"
	"github.com/zonelect/zonelect/internal/extension"
	"github.com/zonelect/zonelect/internal/plan"
	"github.com/zonelect/zonelect/operator"
)

const timingLong = `No cluster is asked. The first table has the settings, each with its reason. The second has what follows
from them, beside the default (client-go's and controller-runtime's too), the timing of OpenShift's
operators, and --leader-elect-timing=patient. A failover is the longest time from the fault until the next
leader's work begins. With -o wide the mean stands before it, and the formulas of the plan are shown.
-o yaml prints the operator's flags, and the variables in their place.`

const timingExample = `  # The API may be away for 30s; when a zone dies, a new leader is needed in 45s
  kubectl zonelect timing --api-outage 30s --failover 45s --stop 5s

  # The flags, for the container of a Deployment
  kubectl zonelect timing --api-outage 30s --failover 45s --stop 5s -o yaml

  # What 3s instead of 15s costs and survives, with 1000 locks in 3 processes
  kubectl zonelect timing --heartbeat --locks 1000 --processes 3 --etcd-election 2s`

// timingCommand is one call of timing.
type timingCommand struct {
	env          *environment
	requirements plan.Requirements
	stop         func() bool // whether --stop was given
	output       string
}

var timingFormats = []string{"wide", "yaml"}

func newTiming(env *environment) *cobra.Command {
	// The default requirements are those that the default timing meets.
	t := &timingCommand{env: env, requirements: plan.Requirements{
		APIOutage: 5 * time.Second, Stop: 4800 * time.Millisecond, MaxClockDrift: timing.DefaultMaxClockDrift,
		RoundTrip: plan.RoundTripDefault, Candidates: plan.CandidatesDefault,
		EtcdElection: plan.EtcdElectionDefault, Locks: 1,
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
	f.DurationVar(&t.requirements.APIOutage, "api-outage", t.requirements.APIOutage, "How long the API may be unavailable before the leader loses its term.")
	f.DurationVar(&t.requirements.Failover, "failover", 0, "Longest time until another candidate leads when the leader's zone dies and the API is reachable. 0: no limit.")
	f.DurationVar(&t.requirements.Stop, "stop", t.requirements.Stop, "How long the work takes to stop.")
	f.Var((*percent)(&t.requirements.MaxClockDrift), "drift", "How much the rates of two machines' clocks may differ. 0: the default.")
	f.DurationVar(&t.requirements.RoundTrip, "round-trip", t.requirements.RoundTrip, "Time that a request and its answer seldom exceed.")
	f.IntVar(&t.requirements.Candidates, "candidates", t.requirements.Candidates, "Number of candidates.")
	f.IntVar(&t.requirements.Zones, "zones", 0, "Number of zones. 0: three, or as many as there are candidates.")
	f.BoolVar(&t.requirements.Exclusive, "exclusive", false, "No client-go candidate shares the lock.")
	f.BoolVar(&t.requirements.Heartbeat, "heartbeat", false, "Each process renews all its locks with one write. Implies --exclusive.")
	f.IntVar(&t.requirements.Locks, "locks", t.requirements.Locks, "Number of locks.")
	f.IntVar(&t.requirements.Processes, "processes", 0, "Number of processes. 0: as many as there are candidates.")
	f.DurationVar(&t.requirements.EtcdElection, "etcd-election", t.requirements.EtcdElection, "How long etcd takes to elect a leader: 1s to 2s with etcd's default timeout.")
	f.StringVarP(&t.output, "output", "o", "", fmt.Sprintf("Output format. One of: (%s).", strings.Join(timingFormats, ", ")))
	for _, name := range []string{"api-outage", "failover", "stop", "drift", "round-trip", "candidates", "zones", "locks", "processes", "etcd-election"} {
		_ = c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions) // it fails for a flag that does not exist
	}
	t.stop = func() bool { return f.Changed("stop") }
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(timingFormats, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (t *timingCommand) run() error {
	if t.output != "" && !slices.Contains(timingFormats, t.output) {
		return usage("--output=%s: use one of %s", t.output, strings.Join(timingFormats, ", "))
	}
	p, err := t.requirements.Plan()
	if errors.Is(err, plan.ErrImpossible) {
		return usage("%w", err)
	}
	if err != nil {
		return err
	}
	if t.output == "yaml" {
		return printFlags(t.env.streams.Out, p)
	}
	outlooks := outlooksOf(p)
	if err := printTiming(t.env.streams.Out, p, outlooks, t.output == "wide"); err != nil {
		return err
	}
	t.warn(outlooks, p.Requirements)
	return nil
}

// warn says what the plan, and the timing of Seconds, do not survive. How long work takes to
// stop counts only if somebody said so.
func (t *timingCommand) warn(outlooks []outlook, r plan.Requirements) {
	for _, o := range outlooks {
		if !o.promised {
			continue
		}
		if !t.stop() {
			r.Stop = 0
		}
		for _, warning := range plan.Warnings(o.timing, r) {
			tell(t.env.streams.ErrOut, "warning: %s: %s\n", o.brief(), warning)
		}
	}
}

// printTiming prints the plan's settings, and what follows from them and from others.
func printTiming(out io.Writer, p plan.Plan, outlooks []outlook, wide bool) error {
	table := printers.GetNewTabWriter(out)
	line := func(cells ...string) { _, _ = io.WriteString(table, strings.Join(cells, "\t")+"\n") } // Flush says so
	line("SETTING", "VALUE", "WHY")
	for _, s := range p.Settings {
		line(s.Name, s.Value.Round(time.Millisecond).String(), s.Why)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	line("")

	head, second := []string{"WHAT FOLLOWS"}, []string{"LeaseDuration/RenewDeadline/RenewInterval"}
	for _, o := range outlooks {
		head = append(head, o.name)
		second = append(second, o.brief())
	}
	if wide {
		head = append(head, "BY THE FORMULA, AS PLANNED")
	}
	line(head...)
	line(second...)
	for i, planned := range consequences(p.Requirements, outlooks[0]) {
		cells := []string{planned.what}
		for _, o := range outlooks {
			cells = append(cells, consequences(p.Requirements, o)[i].cell(wide))
		}
		if wide && planned.count == "" {
			cells = append(cells, planned.bound.Worst.String())
		}
		line(cells...)
	}
	return table.Flush()
}

// openShift is the timing that library-go gives to the operators of OpenShift, see
// LeaderElectionDefaulting in
// https://github.com/openshift/library-go/blob/master/pkg/config/leaderelection/leaderelection.go.
var openShift = election.Timing{LeaseDuration: 137 * time.Second, RenewDeadline: 107 * time.Second, RenewInterval: 26 * time.Second}

// others are the timings to compare with, each with the elector that uses it now.
var others = []outlook{{name: "CLIENT-GO"}, {name: "OPENSHIFT", timing: openShift}}

// outlook is how an elector behaves with a timing.
type outlook struct {
	name     string
	timing   election.Timing
	bounds   plan.Bounds
	load     plan.Load
	promised bool // warn of what it does not survive
	clientGo bool
}

// outlooksOf returns the plan's outlook, and those to compare it with.
func outlooksOf(p plan.Plan) []outlook {
	if p.Requirements.Heartbeat {
		return []outlook{
			zonelect("PLANNED", p.Timing, p.Requirements, true),
			zonelect("ZONELECT", election.Timing{}, p.Requirements, false),
			zonelect("SECONDS", timing.Fast(), p.Requirements, true),
			byClientGo("CLIENT-GO", election.Timing{}, p.Requirements),
		}
	}
	all := []outlook{zonelect("PLANNED", p.Timing, p.Requirements, true)}
	for _, o := range others {
		all = append(all, zonelect("ZONELECT", o.timing, p.Requirements, false), byClientGo(o.name, o.timing, p.Requirements))
	}
	return append(all, zonelect("PATIENT", timing.Patient(), p.Requirements, false))
}

// zonelect is the outlook of zonelect's elector with a timing.
func zonelect(name string, t election.Timing, r plan.Requirements, promised bool) outlook {
	t = underRequirements(t, r)
	return outlook{name: name, timing: t, bounds: plan.BoundsOf(t, r), load: plan.LoadOf(t, r), promised: promised}
}

// byClientGo is the outlook of client-go's elector with a timing.
func byClientGo(name string, t election.Timing, r plan.Requirements) outlook {
	t = underRequirements(t, r)
	return outlook{name: name, timing: t, bounds: clientgo.Bounds(t, r), load: plan.LoadOf(t, r), clientGo: true}
}

// underRequirements is a timing with what requirements say about clocks and other electors.
func underRequirements(t election.Timing, r plan.Requirements) election.Timing {
	t.MaxClockDrift, t.Exclusive = r.MaxClockDrift, r.Exclusive
	return t.WithDefaults()
}

// brief names the timing by its durations.
func (o outlook) brief() string {
	return fmt.Sprintf("%s/%s/%s", brief(o.timing.LeaseDuration), brief(o.timing.RenewDeadline), brief(o.timing.RenewInterval))
}

// consequence is a row of the table: of a duration, or of a number.
type consequence struct {
	what  string
	bound plan.Bound
	count string
}

func consequences(r plan.Requirements, o outlook) []consequence {
	b := o.bounds
	if b.OutageSurvived.Total() <= 0 {
		b.OutageSurvived = nil
	}
	if b.ElectionSurvived.Total() <= 0 {
		b.ElectionSurvived = nil
	}
	return append([]consequence{
		{what: fmt.Sprintf("failover: leader told to stop, which takes %s", brief(r.Stop)), bound: b.Stop},
		{what: "failover: leader killed, or its zone dark", bound: b.Kill},
		{what: "  and all used the API server in that zone", bound: b.DeadServer},
		{what: fmt.Sprintf("  and etcd elects a leader for %s", brief(r.EtcdElection)), bound: b.LossInElection},
		{what: fmt.Sprintf("  and no API for %s from then on", brief(r.APIOutage)), bound: b.LossInOutage},
		{what: "failover: from the proof that it is dead", bound: b.Proof},
		{what: "  more, if those who go first are dead too", bound: plan.Bound{Worst: b.TakeoverDelay}},
		{what: "API outage that the leader surely survives", bound: plan.Bound{Worst: b.OutageSurvived}},
		{what: "  after a longer one, leads again in", bound: b.Recovery},
		{what: "etcd election that the leader surely survives", bound: plan.Bound{Worst: b.ElectionSurvived}},
		{what: "time for work to stop when the term is lost", bound: plan.Bound{Worst: b.StopLeft}},
	}, costs(r, o)...)
}

// costs are the rows about requests: per day for one lock, or per second for many.
func costs(r plan.Requirements, o outlook) []consequence {
	reads := consequence{what: "reads per day and follower", count: strconv.Itoa(o.bounds.ReadsPerDay)}
	if r.Locks == 1 && !r.Heartbeat {
		return []consequence{{what: "writes per day", count: strconv.Itoa(o.bounds.WritesPerDay)}, reads}
	}
	heartbeats, takeover := rate(o.load.Heartbeats), o.load.Takeover
	if o.clientGo {
		heartbeats = "-"
		takeover = plan.LoadOf(o.timing, plan.Requirements{Locks: r.Locks, Processes: r.Processes}).Takeover
	}
	return []consequence{
		{what: fmt.Sprintf("writes per second, for each of %d locks", r.Locks), count: rate(o.load.Renewals)},
		{what: fmt.Sprintf("  for each of %d processes, with heartbeats", r.Processes), count: heartbeats},
		{what: "writes at once when a process dies", count: strconv.Itoa(takeover)},
		{what: "reads per day, follower and lock", count: reads.count},
	}
}

// rate is a number per second, so that people can compare it.
func rate(perSecond float64) string {
	return strconv.FormatFloat(math.Round(perSecond*100)/100, 'f', -1, 64)
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
func printFlags(out io.Writer, p plan.Plan) error {
	r := p.Requirements
	failover := "of any length"
	if r.Failover > 0 {
		failover = r.Failover.String()
	}
	text := &strings.Builder{}
	tell(text, "# API outage %v, failover %s, stop %v, clock drift %s, round trip %v.\n", r.APIOutage, failover, r.Stop, (*percent)(&r.MaxClockDrift), r.RoundTrip)
	tell(text, "# Use either the flags or the environment, with the same values in all candidates.\n")
	if r.MaxClockDrift != timing.DefaultMaxClockDrift {
		tell(text, "# In the program set Timing.MaxClockDrift to %v: it has no flag.\n", r.MaxClockDrift)
	}
	flags := (&cobra.Command{}).Flags()
	extension.AddFlags(&operator.Options{Timing: p.Timing}, flags)
	heartbeat.AddFlag(flags, &r.Heartbeat)
	args, env := &strings.Builder{}, &strings.Builder{}
	names := []string{"leader-elect-lease-duration", "leader-elect-renew-deadline", "leader-elect-retry-period", "leader-elect-stop-timeout"}
	if p.Timing.Exclusive {
		names = append(names, "leader-elect-exclusive")
	}
	if r.Heartbeat {
		names = append(names, "leader-elect-heartbeat")
	}
	for _, name := range names {
		value := flags.Lookup(name).DefValue
		tell(args, "- --%s=%s\n", name, value)
		if flags.Lookup(name).Value.Type() == "bool" {
			value = strconv.Quote(value) // a variable is a string
		}
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
