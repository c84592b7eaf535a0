// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command legacy is an operator of the past: it leads for life by a ConfigMap, or campaigns as
// client-go did while its locks were on annotations. It prints the same lines as the candidate program.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/legacyelectors"
)

// options are the flags.
type options struct {
	kind                        legacyelectors.Kind
	kubeconfig, namespace, lock string
	podName, identity           string
	lease, deadline, retry      time.Duration
}

func main() {
	var o options
	f := pflag.NewFlagSet("legacy", pflag.ExitOnError)
	f.StringVar((*string)(&o.kind), "kind", string(legacyelectors.OwnerRef),
		"ownerref, configmap, endpoints, multilock-configmap or multilock-endpoints")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "path of the kubeconfig")
	f.StringVar(&o.namespace, "namespace", "default", "namespace of lock and pod")
	f.StringVar(&o.lock, "lock", "", "name of the ConfigMap or Endpoints")
	f.StringVar(&o.podName, "pod-name", "", "name of the pod")
	f.StringVar(&o.identity, "identity", "", "identity of the candidate")
	f.DurationVar(&o.lease, "lease-duration", 15*time.Second, "")
	f.DurationVar(&o.deadline, "renew-deadline", 10*time.Second, "")
	f.DurationVar(&o.retry, "retry-period", 2*time.Second, "")
	_ = f.Parse(os.Args[1:])
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := o.campaign(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "legacy:", err)
		os.Exit(1)
	}
}

// campaign campaigns and leads until ctx ends.
func (o options) campaign(ctx context.Context) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	printer := &events.Printer{Identity: o.identity, Lock: o.lock}
	work := func(ctx context.Context, token uint64) {
		printer.Print(events.Event{Event: "leading", Token: token})
		<-ctx.Done()
		printer.Print(events.Event{Event: "stopping", Cause: context.Cause(ctx).Error()})
		printer.Print(events.Event{Event: "stopped"})
	}
	if o.kind != legacyelectors.OwnerRef { // leader-for-life has no timeout
		cfg.Timeout = max(time.Second, o.deadline/2) // as client-go and controller-runtime set it
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	if o.kind == legacyelectors.OwnerRef {
		f := &legacyelectors.ForLife{
			Client: client, Variant: legacyelectors.Original, Namespace: o.namespace, Lock: o.lock, PodName: o.podName, Print: printer.Print,
		}
		f.Run(ctx, work)
		return nil
	}
	lock, err := legacyelectors.NewLock(client, o.kind, o.namespace, o.lock, o.identity)
	if err != nil {
		return err
	}
	e := &legacyelectors.Elector{Lock: lock, Lease: o.lease, Deadline: o.deadline, Retry: o.retry, Print: printer.Print, Work: work}
	e.Run(ctx)
	return nil
}
