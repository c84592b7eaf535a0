// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command candidate campaigns for one lock or for several, and prints what
// happens, one JSON object a line. Tests, demo and chaos run it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/stdr"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/environment"
	"github.com/zonelect/zonelect/internal/legacypods"
	"github.com/zonelect/zonelect/operator"
	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/register"
)

// options are the flags.
type options struct {
	operator.Options
	kubeconfig string
	server     string
	locks      int
	shared     bool
	stopDelay  time.Duration
	register   string
	traces     string
	pace       register.Pace
	reports    bool
}

func parse(args []string) (options, error) {
	var o options
	var grace, skew time.Duration
	var kind string
	l := &o.Legacy
	f := pflag.NewFlagSet("candidate", pflag.ContinueOnError)
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "path of the kubeconfig")
	f.StringVar(&o.server, "server", "", "API server URL; overrides the kubeconfig's")
	f.StringVar(&o.Namespace, "namespace", "default", "namespace of the lock")
	f.StringVar(&o.Name, "lock", "", "name of the lock")
	f.IntVar(&o.locks, "locks", 0, "campaign for so many locks, named after --lock and --identity with -0 and so on")
	f.BoolVar(&o.shared, "shared", false, "share connections and presence among all --locks, under one identity")
	f.StringVar(&o.Self.Identity, "identity", "", "unique per process start; made up by default, but not with --locks")
	f.StringVar(&o.Self.PodName, "pod-name", "", "name of the pod")
	f.StringVar(&o.Self.PodUID, "pod-uid", "", "UID of the pod")
	f.StringVar(&o.Self.Node, "node-name", "", "name of the node")
	f.StringVar(&o.Self.Zone, "zone", "", "zone; the node's label by default")
	f.StringSliceVar(&o.PreferredZones, "preferred-zones", nil, "zones that the leader is wanted in, most wanted first")
	f.StringVar((*string)(&l.Mode), "mode", string(operator.ModeLease),
		"auto, dual or lease; the others than lease need a pod where the legacy kind is ownerref")
	f.StringVar(&kind, "legacy-kind", "ownerref", "the legacy lock's kind: ownerref, configmap or endpoints")
	f.StringVar(&l.Name, "legacy-name", "", "the legacy lock's name; that of the lock by default")
	f.StringVar(&l.PodSelector, "selector", "", "label selector of the operator's pods; that of this pod's workload by default")
	f.DurationVar(&grace, "legacy-grace", legacypods.GraceDefault, "silence of a node after which its legacy pods count as gone; 0 is never")
	f.DurationVar(&o.Timing.LeaseDuration, "lease-duration", timing.DefaultLeaseDuration, "")
	f.DurationVar(&o.Timing.RenewDeadline, "renew-deadline", timing.DefaultRenewDeadline, "")
	f.DurationVar(&o.Timing.RenewInterval, "renew-interval", timing.DefaultRenewInterval, "")
	f.DurationVar(&o.stopDelay, "stop-delay", 0, "how long the work takes to stop")
	f.StringVar(&o.register, "register", "", "ConfigMap that the leader keeps writing")
	f.DurationVar(&o.pace.Interval, "register-interval", register.Interval, "how often it writes that")
	f.IntVar(&o.pace.Deaf, "register-deaf", 0, "how many writes it makes before it sees that its term has ended")
	f.BoolVar(&o.reports, "register-report", false, "print each write of it")
	f.DurationVar(&skew, "max-clock-skew", 0, "0, which is not to look at wall clocks; nothing else is possible any more")
	f.StringVar(&o.traces, "traces", "", "file that spans are appended to, as JSON")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if l.Grace = grace; grace == 0 {
		l.Grace = -1 // the library's zero is its default
	}
	if l.Mode != operator.ModeLease && kind != "ownerref" {
		l.ResourceLock = strings.TrimSuffix(kind, "s") + "sleases"
	}
	switch {
	case o.locks > 0 && o.Self.Identity == "":
		return o, errors.New("--locks needs --identity")
	case o.Name == "":
		return o, errors.New("--lock is missing: the name of the Lease to campaign for")
	case skew != 0:
		return o, fmt.Errorf("--max-clock-skew is %v: use 0 or leave it out, because wall clocks never decide who leads", skew)
	case f.NArg() > 0:
		return o, fmt.Errorf("unexpected arguments: %v", f.Args())
	}
	if o.locks == 0 && o.shared {
		return o, errors.New("--shared needs --locks")
	}
	return o, o.Timing.WithDefaults().Validate()
}

func main() {
	o, err := parse(os.Args[1:])
	if errors.Is(err, pflag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "candidate:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := campaign(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "candidate:", err)
		os.Exit(1)
	}
}

func campaign(ctx context.Context, o options) error {
	var err error
	if o.Config, err = environment.RESTConfig(o.kubeconfig); err != nil {
		return err
	}
	if o.server != "" {
		o.Config.Host = o.server
	}
	traces, closeTraces, err := tracing(ctx, o.traces)
	if err != nil {
		return err
	}
	defer closeTraces()
	o.TracerProvider = traces
	o.Logger = stdr.New(log.New(os.Stderr, "", log.LstdFlags|log.Lmicroseconds))
	if o.locks == 0 {
		return o.one(ctx, operator.New)
	}
	return o.all(ctx)
}

// all campaigns for all --locks.
func (o options) all(ctx context.Context) error {
	before := runtime.NumGoroutine()
	elect := maker(operator.New) // each lock gets the options that a program of its own would have
	if o.shared {
		group, err := operator.NewGroup(ctx, o.Name, o.Options)
		if err != nil {
			return err
		}
		elect = func(_ context.Context, name string, _ operator.Options) (*operator.Election, error) {
			return group.New(name)
		}
	}
	var wait sync.WaitGroup
	errs := make([]error, o.locks)
	for i := range errs {
		one := o
		one.Name = fmt.Sprint(o.Name, "-", i)
		if !o.shared {
			one.Self.Identity = fmt.Sprint(o.Self.Identity, "-", i)
		}
		if o.register != "" {
			one.register = fmt.Sprint(o.register, "-", i)
		}
		wait.Go(func() { errs[i] = one.one(ctx, elect) })
	}
	wait.Wait()
	all := events.Printer{Identity: o.Self.Identity, Lock: o.Name}
	all.Print(events.Event{Event: "ended", Goroutines: left(before)})
	return errors.Join(errs...)
}

// maker makes an election, such as operator.New.
type maker func(ctx context.Context, name string, o operator.Options) (*operator.Election, error)

// one campaigns for one lock.
func (o options) one(ctx context.Context, elect maker) error {
	before := runtime.NumGoroutine()
	e, err := elect(ctx, o.Name, o.Options)
	if err != nil {
		return err
	}
	w, err := newWork(o, e)
	if err != nil {
		return err
	}
	w.printer.Print(events.Event{Event: "started"})
	told := w.tell(e)
	err = e.Run(ctx, w.lead)
	told()
	ended := events.Event{Event: "ended"}
	if o.locks == 0 { // or all of the process's elections are counted together
		ended.Goroutines = left(before)
	}
	w.printer.Print(ended)
	return err
}

// left returns how many more goroutines there are than before, once those that
// are about to end have ended.
func left(before int) int {
	for range 20 {
		if runtime.NumGoroutine() <= before {
			return 0
		}
		time.Sleep(10 * time.Millisecond)
	}
	return runtime.NumGoroutine() - before
}

// tracing returns a provider that appends each span to the file at once. Without one it is nil.
func tracing(ctx context.Context, path string) (trace.TracerProvider, func(), error) {
	if path == "" {
		return nil, func() {}, nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open --traces: %w", err)
	}
	exporter, err := stdouttrace.New(stdouttrace.WithWriter(file))
	if err != nil {
		return nil, nil, fmt.Errorf("write --traces: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	return provider, func() {
		_ = provider.Shutdown(context.WithoutCancel(ctx))
		_ = file.Close()
	}, nil
}
