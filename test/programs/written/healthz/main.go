// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command healthz uses client-go's leader election as kube-scheduler and other components of Kubernetes do:
// its lock has clients of its own and records events, and its liveness depends on the election. A test
// builds it as it stands and with the import of zonelect's package leaderelection. It prints "working" when
// it begins to work and "idle" when it has stopped.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

func main() {
	name := pflag.String("lease-lock-name", "", "name of the Lease")
	id := pflag.String("id", "", "identity of this replica")
	pflag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *name, *id); err != nil {
		klog.ErrorS(err, "it cannot go on")
		os.Exit(1)
	}
}

func run(ctx context.Context, name, id string) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	events := record.NewBroadcaster(record.WithContext(ctx))
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: kubernetes.NewForConfigOrDie(config).CoreV1().Events("")})
	defer events.Shutdown()
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, "default", name, resourcelock.ResourceLockConfig{
		Identity: id, EventRecorder: events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "healthz"}),
	}, config, 10*time.Second)
	if err != nil {
		return err
	}
	watchDog := leaderelection.NewLeaderHealthzAdaptor(20 * time.Second)
	if err := serve(ctx, watchDog); err != nil {
		return err
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		WatchDog: watchDog, Name: "healthz", ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				fmt.Println("working", time.Now().Format(time.RFC3339Nano))
				<-ctx.Done()
				fmt.Println("idle", time.Now().Format(time.RFC3339Nano))
			},
			OnStoppedLeading: func() {
				select {
				case <-ctx.Done():
					klog.InfoS("Told to end")
					os.Exit(0)
				default:
					klog.ErrorS(nil, "Leadership is lost")
					klog.FlushAndExit(klog.ExitFlushTimeout, 1)
				}
			},
			OnNewLeader: func(identity string) { klog.InfoS("Another leads", "identity", identity) },
		},
	})
	if err != nil {
		return err
	}
	watchDog.SetLeaderElection(elector)
	elector.Run(ctx)
	return fmt.Errorf("the lease is lost")
}

// serve answers liveness probes, and prints where.
func serve(ctx context.Context, watchDog *leaderelection.HealthzAdaptor) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz/"+watchDog.Name(), func(w http.ResponseWriter, r *http.Request) {
		if err := watchDog.Check(r); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = fmt.Fprint(w, "ok")
	})
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("healthz", listener.Addr())
	go func() { _ = (&http.Server{Handler: mux, ReadHeaderTimeout: time.Second}).Serve(listener) }()
	return nil
}
