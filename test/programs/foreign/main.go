// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command foreign writes the record of a leader as electors do that are not written in Go, so that what
// their objects look like can be seen without a JVM or an interpreter. It leads alone, and elects nobody.
//
//   - fabric8: the LeaseLock of fabric8's client for Java. Each renewal reads the Lease and replaces it,
//     every retryPeriod, with times of microseconds; see LeaderElector.java and LeaseLock.java in
//     https://github.com/fabric8io/kubernetes-client, package extended.leaderelection. It announces itself as
//     fabric8-kubernetes-client (Config.java).
//   - java: the LeaseLock of the official client for Java. The same, with times of milliseconds, because its
//     record has a java.util.Date; see LeaseLock.java in https://github.com/kubernetes-client/java, package
//     extended.leaderelection. It announces itself as Kubernetes Java Client (ApiClient.java).
//   - python: the ConfigMapLock of the official client for Python, its only lock. The record is an
//     annotation whose duration is a text, whose times are Python's and have no zone, and which counts no
//     transitions; see leaderelection.py and configmaplock.py in
//     https://github.com/kubernetes-client/python, package base.leaderelection. It announces itself as
//     OpenAPI-Generator (api_client.py).
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// agents are how the libraries announce themselves.
var agents = map[string]string{
	"fabric8": "fabric8-kubernetes-client/7.4.0",
	"java":    "Kubernetes Java Client/24.0.0",
	"python":  "OpenAPI-Generator/33.1.0/python",
}

// leader writes the record.
type leader struct {
	client              kubernetes.Interface
	style, lock, holder string
	lease               time.Duration
	acquired            time.Time
}

func main() {
	var l leader
	kubeconfig := flag.String("kubeconfig", "", "path of the kubeconfig")
	flag.StringVar(&l.style, "style", "fabric8", "fabric8, java or python")
	flag.StringVar(&l.lock, "lock", "", "name of the lock in namespace default")
	flag.StringVar(&l.holder, "identity", "", "identity of the leader")
	flag.DurationVar(&l.lease, "lease-duration", 15*time.Second, "")
	retry := flag.Duration("retry-period", 2*time.Second, "time between renewals")
	flag.Parse()
	cfg, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	cfg.UserAgent = agents[l.style]
	l.client, l.acquired = kubernetes.NewForConfigOrDie(cfg), time.Now()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	for ctx.Err() == nil {
		write := l.writeLease
		if l.style == "python" {
			write = l.writeConfigMap
		}
		if err := write(ctx); err != nil {
			log.Print(err)
		}
		select {
		case <-time.After(*retry):
		case <-ctx.Done():
		}
	}
}

// writeLease renews as the clients for Java do.
func (l *leader) writeLease(ctx context.Context) error {
	unit := time.Microsecond
	if l.style == "java" {
		unit = time.Millisecond
	}
	at := func(t time.Time) *metav1.MicroTime { return &metav1.MicroTime{Time: t.UTC().Truncate(unit)} }
	spec := coordinationv1.LeaseSpec{
		HolderIdentity: &l.holder, LeaseDurationSeconds: new(int32(l.lease / time.Second)),
		AcquireTime: at(l.acquired), RenewTime: at(time.Now()), LeaseTransitions: new(int32(0)),
	}
	leases := l.client.CoordinationV1().Leases(metav1.NamespaceDefault)
	lease, err := leases.Get(ctx, l.lock, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: l.lock}, Spec: spec}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec = spec
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

// writeConfigMap renews as the client for Python does.
func (l *leader) writeConfigMap(ctx context.Context) error {
	const layout = "2006-01-02 15:04:05.000000"
	text, err := json.Marshal(map[string]string{
		"holderIdentity": l.holder, "leaseDurationSeconds": fmt.Sprint(int(l.lease / time.Second)),
		"acquireTime": l.acquired.Format(layout), "renewTime": time.Now().Format(layout),
	})
	if err != nil {
		return err
	}
	record := map[string]string{resourcelock.LeaderElectionRecordAnnotationKey: string(text)}
	maps := l.client.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	object, err := maps.Get(ctx, l.lock, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: l.lock, Annotations: record}}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	object.Annotations = record
	_, err = maps.Update(ctx, object, metav1.UpdateOptions{})
	return err
}
