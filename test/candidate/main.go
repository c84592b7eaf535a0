// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command candidate campaigns for one lock and prints what happens, one JSON
// object a line. Tests, demo and chaos are made of it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/stdr"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	stdlog "log"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks/annotation"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/ownerref"
	"github.com/zonelect/zonelect/operator"
	"github.com/zonelect/zonelect/test/events"
	"github.com/zonelect/zonelect/test/register"
)

// options are the flags.
type options struct {
	kubeconfig, namespace, lock string
	servers                     []string
	self                        operator.SelfOptions
	mode, legacyKind            string
	shield                      operator.ShieldOptions
	timing                      election.Timing
	stopDelay                   time.Duration
	exitOnOverrun               bool
	register, traces            string
	pace                        register.Pace
	guard                       bool
}

func parse(args []string) (options, error) {
	var o options
	f := pflag.NewFlagSet("candidate", pflag.ContinueOnError)
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "path of the kubeconfig")
	f.StringSliceVar(&o.servers, "server", nil, "API server URLs, nearest first; overrides the kubeconfig's")
	f.StringVar(&o.namespace, "namespace", "default", "namespace of the lock")
	f.StringVar(&o.lock, "lock", "", "name of the lock")
	f.StringVar(&o.self.Identity, "identity", "", "unique per process start; made up by default")
	f.StringVar(&o.self.PodName, "pod-name", "", "name of the pod")
	f.StringVar(&o.self.PodUID, "pod-uid", "", "UID of the pod")
	f.StringVar(&o.self.Node, "node-name", "", "name of the node")
	f.StringVar(&o.self.Zone, "zone", "", "zone; the node's label by default")
	f.StringVar(&o.mode, "mode", "lease", "auto, dual or lease; the others than lease need a pod where the legacy kind is ownerref")
	f.StringVar(&o.legacyKind, "legacy-kind", "ownerref", "the legacy lock's kind: ownerref, configmap or endpoints")
	f.StringVar(&o.shield.LegacyName, "legacy-name", "", "the legacy lock's name; that of the lock by default")
	f.StringVar(&o.shield.Selector, "selector", "", "label selector of the operator's pods; that of the own workload by default")
	f.DurationVar(&o.shield.LegacyGrace, "legacy-grace", ownerref.GraceDefault, "silence of a node after which its legacy pods count as gone; 0 is never")
	f.DurationVar(&o.shield.Settle, "settle", 0, "the wait for collectors before Kubernetes 1.34; by default what the server's version calls for, negative is none")
	f.DurationVar(&o.timing.LeaseDuration, "lease-duration", election.LeaseDurationDefault, "")
	f.DurationVar(&o.timing.RenewDeadline, "renew-deadline", election.RenewDeadlineDefault, "")
	f.DurationVar(&o.timing.RenewInterval, "renew-interval", election.RenewIntervalDefault, "")
	f.DurationVar(&o.timing.StopTimeout, "stop-timeout", election.StopTimeoutDefault, "how long the lease is kept for work that was asked to stop")
	f.DurationVar(&o.stopDelay, "stop-delay", 0, "how long the work takes to stop")
	f.BoolVar(&o.exitOnOverrun, "exit-on-overrun", false, "exit with status 1 when the work has not stopped in time")
	f.StringVar(&o.register, "register", "", "ConfigMap that the leader keeps writing")
	f.DurationVar(&o.pace.Interval, "register-interval", register.Interval, "how often it writes that")
	f.IntVar(&o.pace.Deaf, "register-deaf", 0, "how many writes it makes before it sees that its term has ended")
	f.BoolVar(&o.guard, "guard", true, "refuse to write it in a term that is not trusted")
	f.StringVar(&o.traces, "traces", "", "file that spans are appended to, as JSON")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.shield.LegacyGrace == 0 {
		o.shield.LegacyGrace = -1 // the library's zero is its default
	}
	switch {
	case o.lock == "":
		return o, errors.New("--lock is missing: the name of the Lease to campaign for")
	case o.mode != "lease" && o.mode != string(multilock.Auto) && o.mode != string(multilock.Dual):
		return o, fmt.Errorf("--mode=%s: use auto, dual or lease", o.mode)
	case o.legacyKind != "ownerref" && recordKinds[o.legacyKind] == "":
		return o, fmt.Errorf("--legacy-kind=%s: use ownerref, configmap or endpoints", o.legacyKind)
	case f.NArg() > 0:
		return o, fmt.Errorf("unexpected arguments: %v", f.Args())
	}
	return o, o.timing.WithDefaults().Validate()
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
	log := stdr.New(stdlog.New(os.Stderr, "", stdlog.LstdFlags|stdlog.Lmicroseconds))
	cfg, _, err := operator.RESTConfig(o.kubeconfig)
	if err != nil {
		return err
	}
	if len(o.servers) > 0 {
		cfg.Host = o.servers[0]
	}
	o.self.Config, o.self.Kubeconfig, o.self.Namespace, o.self.Logger = cfg, o.kubeconfig, o.namespace, log
	self, err := operator.WhoAmI(ctx, o.self)
	if err != nil {
		return err
	}
	lock, err := o.newLock(cfg, self, log)
	if err != nil {
		return err
	}
	traces, closeTraces, err := tracing(o.traces)
	if err != nil {
		return err
	}
	defer closeTraces()
	elector, err := election.New(election.Config{
		Lock: lock, Candidate: self.Candidate(), Timing: o.timing, TracerProvider: traces, Logger: log,
	})
	if err != nil {
		return err
	}
	w, err := newWork(cfg, o, elector)
	if err != nil {
		return err
	}
	w.printer.Print(events.Event{Event: "started"})
	told := w.tell(elector)
	defer told()
	endEvents := postEvents(cfg, elector, log)
	defer endEvents()
	return elector.Run(ctx, w.lead)
}

// recordKinds are the objects that client-go's old locks put their record on.
var recordKinds = map[string]annotation.Kind{"configmap": annotation.ConfigMaps, "endpoints": annotation.Endpoints}

// newLock returns the lock of the mode.
func (o options) newLock(cfg *rest.Config, self operator.Self, log logr.Logger) (election.Lock, error) {
	way := operator.LockOptions{Servers: o.servers, Logger: log}
	if o.mode == "lease" {
		return operator.LeaseOnlyLock(cfg, o.timing, o.namespace, o.lock, way)
	}
	if kind := recordKinds[o.legacyKind]; kind != "" {
		return operator.TwinLock(cfg, o.timing, self, o.namespace, o.lock, operator.TwinOptions{
			Kind: kind, LegacyName: o.shield.LegacyName, Mode: multilock.Mode(o.mode), LockOptions: way,
		})
	}
	o.shield.Mode, o.shield.LockOptions = multilock.Mode(o.mode), way
	return operator.ShieldLock(cfg, o.timing, self, o.namespace, o.lock, o.shield)
}

// tracing returns a provider that appends each span to the file at once.
func tracing(path string) (trace.TracerProvider, func(), error) {
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
		_ = provider.Shutdown(context.Background())
		_ = file.Close()
	}, nil
}

// postEvents posts Kubernetes Events on the Lease, by a client of its own.
func postEvents(cfg *rest.Config, elector *election.Elector, log logr.Logger) func() {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		log.Error(err, "no Events will be posted")
		return func() {}
	}
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "zonelect"})
	ctx, cancel := context.WithCancel(context.Background())
	transitions := elector.Subscribe(ctx)
	go lease.RecordEvents(recorder, transitions)
	return func() {
		cancel()
		broadcaster.Shutdown()
	}
}
