// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command peer is a candidate of other software: of client-go's own elector on a LeaseLock, with
// controller-runtime's settings, or an operator of the past, which leads for life by a ConfigMap, or
// campaigns as client-go did while its locks were on annotations. It prints the same lines as the
// candidate program.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/legacyelectors"
)

// options are the flags.
type options struct {
	kind                                  legacyelectors.Kind
	kubeconfig, namespace, lock, register string
	podName, identity                     string
	lease, deadline, retry                time.Duration
}

func main() {
	var o options
	f := pflag.NewFlagSet("peer", pflag.ExitOnError)
	f.StringVar((*string)(&o.kind), "kind", "lease",
		"lease, ownerref, configmap, endpoints, multilock-configmap or multilock-endpoints")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "path of the kubeconfig")
	f.StringVar(&o.namespace, "namespace", "default", "namespace of lock and pod")
	f.StringVar(&o.lock, "lock", "", "name of the lock")
	f.StringVar(&o.register, "register", "", "ConfigMap that the leader keeps writing")
	f.StringVar(&o.podName, "pod-name", "", "name of the pod")
	f.StringVar(&o.identity, "identity", "", "identity of the candidate")
	f.DurationVar(&o.lease, "lease-duration", 15*time.Second, "")
	f.DurationVar(&o.deadline, "renew-deadline", 10*time.Second, "")
	f.DurationVar(&o.retry, "renew-interval", 2*time.Second, "")
	_ = f.Parse(os.Args[1:])
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := o.campaign(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(2)
	}
}

// campaign campaigns and leads until ctx ends.
func (o options) campaign(ctx context.Context) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	p := &events.Printer{Identity: o.identity, Lock: o.lock}
	w, err := newWork(cfg, p, o.namespace, o.register)
	if err != nil {
		return err
	}
	if o.kind != legacyelectors.OwnerRef { // leader-for-life has no timeout
		cfg.Timeout = o.deadline / 2 // as client-go and controller-runtime set it
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	switch o.kind {
	case "lease":
		o.onLease(ctx, client, w)
	case legacyelectors.OwnerRef:
		f := &legacyelectors.ForLife{
			Client: client, Variant: legacyelectors.Original,
			Namespace: o.namespace, Lock: o.lock, PodName: o.podName, Print: p.Print,
		}
		f.Run(ctx, w.lead)
	default:
		lock, err := legacyelectors.NewLock(client, o.kind, o.namespace, o.lock, o.identity)
		if err != nil {
			return err
		}
		e := &legacyelectors.Elector{
			Lock: lock, Lease: o.lease, Deadline: o.deadline, Retry: o.retry, Print: p.Print, Work: w.lead,
		}
		e.Run(ctx)
	}
	return nil
}

// onLease campaigns by client-go's own elector.
func (o options) onLease(ctx context.Context, client kubernetes.Interface, w *work) {
	leases := &noted{LeasesGetter: client.CoordinationV1()}
	w.printer.Print(events.Event{Event: "started"})
	for ctx.Err() == nil {
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta:  metav1.ObjectMeta{Namespace: o.namespace, Name: o.lock},
				Client:     leases,
				LockConfig: resourcelock.ResourceLockConfig{Identity: o.identity},
			},
			LeaseDuration: o.lease, RenewDeadline: o.deadline, RetryPeriod: o.retry,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) { w.lead(ctx, leases.token.Load()) },
				OnStoppedLeading: func() {},
				OnNewLeader: func(leader string) {
					if leader != o.identity && leader != "" {
						w.printer.Print(events.Event{Event: "following", Leader: leader})
					}
				},
			},
		})
	}
}
