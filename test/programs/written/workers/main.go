// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command workers is an operator with an informer and workers, which it starts when it leads. It ends
// when the workers have stopped.
package main

import (
	"context"
	"flag"
	"fmt"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "path of the kubeconfig")
	name := flag.String("lease-lock-name", "", "name of the Lease")
	id := flag.String("id", "", "identity of this replica")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		klog.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(config)
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, "default", *name, client.CoreV1(), client.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: *id})
	if err != nil {
		klog.Fatal(err)
	}
	begun, over := make(chan struct{}), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				close(begun)
				defer close(over)
				work(ctx, client)
			},
			OnStoppedLeading: func() { klog.Info("it does not lead any more") },
		},
	})
	if err != nil {
		klog.Fatal(err)
	}
	elector.Run(ctx)
	select {
	case <-begun:
		<-over
	default: // it never led
	}
}

// work runs workers until ctx ends.
func work(ctx context.Context, client kubernetes.Interface) {
	fmt.Println("working", time.Now().Format(time.RFC3339Nano))
	defer func() { fmt.Println("idle", time.Now().Format(time.RFC3339Nano)) }()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	factory := informers.NewSharedInformerFactory(client, time.Minute)
	informer := factory.Core().V1().ConfigMaps().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
		if key, err := cache.MetaNamespaceKeyFunc(o); err == nil {
			queue.Add(key)
		}
	}}); err != nil {
		klog.Error(err)
		return
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for {
				key, end := queue.Get()
				if end {
					return
				}
				klog.V(2).Info(key)
				queue.Forget(key)
				queue.Done(key)
			}
		})
	}
	<-ctx.Done()
	queue.ShutDown()
	workers.Wait()
}
