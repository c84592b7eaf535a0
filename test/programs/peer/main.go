// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command peer is a candidate of client-go's own elector on a LeaseLock, with
// controller-runtime's settings, for comparison. It prints the same lines as
// the candidate program.
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
)

func main() {
	var kubeconfig, namespace, lock, identity, register string
	f := pflag.NewFlagSet("peer", pflag.ExitOnError)
	f.StringVar(&kubeconfig, "kubeconfig", "", "path of the kubeconfig")
	f.StringVar(&namespace, "namespace", "default", "namespace of the lock")
	f.StringVar(&lock, "lock", "", "name of the lock")
	f.StringVar(&identity, "identity", "", "identity of the candidate")
	f.StringVar(&register, "register", "", "ConfigMap that the leader keeps writing")
	lease := f.Duration("lease-duration", 15*time.Second, "")
	deadline := f.Duration("renew-deadline", 10*time.Second, "")
	retry := f.Duration("renew-interval", 2*time.Second, "")
	_ = f.Parse(os.Args[1:])

	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		fail(err)
	}
	p := &events.Printer{Identity: identity, Lock: lock}
	w, err := newWork(cfg, p, namespace, register)
	if err != nil {
		fail(err)
	}
	cfg.Timeout = *deadline / 2 // as controller-runtime
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		fail(err)
	}
	leases := &noted{LeasesGetter: client.CoordinationV1()}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p.Print(events.Event{Event: "started"})
	for ctx.Err() == nil {
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: lock},
				Client:     leases,
				LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
			},
			LeaseDuration: *lease, RenewDeadline: *deadline, RetryPeriod: *retry,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) { w.lead(ctx, leases.token.Load()) },
				OnStoppedLeading: func() {},
				OnNewLeader: func(leader string) {
					if leader != identity && leader != "" {
						p.Print(events.Event{Event: "following", Leader: leader})
					}
				},
			},
		})
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "peer:", err)
	os.Exit(2)
}
