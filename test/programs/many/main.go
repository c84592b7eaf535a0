// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command many campaigns for many locks in one process, or with many candidates for one lock,
// in one of several ways, and prints who leads, one JSON object a line. Its work does
// nothing, so that what the process uses is used by the elections.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/test/kit/events"
)

// options are the flags.
type options struct {
	namespace, lock, identity, zone string
	podName, podUID                 string
	lease, deadline, retry          time.Duration
	locks, candidates               int
	config                          *rest.Config
}

// elector is one candidate for one lock.
type elector struct {
	identity, lock string
	run            func(ctx context.Context) error // until ctx ends; then it releases the lock
	leader         func() string                   // whom it knows as the leader
}

// maker makes electors. lead is called for each term, and returns when its context ends.
type maker func(identity, lock string, lead func(context.Context)) (elector, error)

// kinds are the ways to campaign.
var kinds = map[string]func(options) (maker, error){"own": own, "outside": own, "shared": shared, "heartbeat": beating, "client-go": clientGo}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "many:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	klog.SetLogger(logr.Discard()) // client-go's elector logs each request that fails
	var o options
	var kubeconfig, kind string
	f := pflag.NewFlagSet("many", pflag.ContinueOnError)
	f.StringVar(&kubeconfig, "kubeconfig", "", "path of the kubeconfig")
	f.StringVar(&kind, "kind", "heartbeat", "own: all for each lock; outside: the same, in no pod; shared: all locks share connections and a watch; heartbeat: and a heartbeat; client-go: its electors, which share one client")
	f.StringVar(&o.namespace, "namespace", "default", "namespace of the locks")
	f.StringVar(&o.lock, "lock", "lock", "what the names of the locks begin with")
	f.StringVar(&o.identity, "identity", "", "identity, or what the identities of many candidates begin with")
	f.StringVar(&o.zone, "zone", "", "zone")
	f.StringVar(&o.podName, "pod-name", "", "name of the pod")
	f.StringVar(&o.podUID, "pod-uid", "", "UID of the pod")
	f.IntVar(&o.locks, "locks", 1, "how many locks")
	f.IntVar(&o.candidates, "candidates", 1, "how many candidates for each lock")
	f.DurationVar(&o.lease, "lease-duration", timing.DefaultLeaseDuration, "")
	f.DurationVar(&o.deadline, "renew-deadline", timing.DefaultRenewDeadline, "")
	f.DurationVar(&o.retry, "renew-interval", timing.DefaultRenewInterval, "")
	if err := f.Parse(args); err != nil {
		return err
	}
	make, known := kinds[kind]
	if !known {
		return fmt.Errorf("there is no kind %q", kind)
	}
	var err error
	if o.config, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		return err
	}
	one, err := make(o)
	if err != nil {
		return err
	}
	return o.campaign(one)
}

// campaign runs all electors until the process is asked to end.
func (o options) campaign(one maker) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var all []elector
	for i := range o.locks {
		for n := range o.candidates {
			identity, lock := o.identity, fmt.Sprint(o.lock, "-", i)
			if o.candidates > 1 {
				identity = fmt.Sprint(o.identity, "-", n)
			}
			p := &events.Printer{Identity: identity, Lock: lock}
			e, err := one(identity, lock, func(ctx context.Context) {
				p.Print(events.Event{Event: "leading"})
				<-ctx.Done()
				p.Print(events.Event{Event: "stopped"})
			})
			if err != nil {
				return err
			}
			all = append(all, e)
		}
	}
	go count(ctx, &events.Printer{Identity: o.identity}, all)
	var wait sync.WaitGroup
	errs := make([]error, len(all))
	for i, e := range all {
		wait.Go(func() { errs[i] = e.run(ctx) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// count prints every second how many goroutines there are, and for how many candidates the
// leader is known.
func count(ctx context.Context, p *events.Printer, all []elector) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		known := 0
		for _, e := range all {
			if e.leader() != "" {
				known++
			}
		}
		p.Print(events.Event{Event: "counted", Goroutines: runtime.NumGoroutine(), Known: known})
	}
}
