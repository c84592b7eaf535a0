// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package peerfaults_test

import (
	"context"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
)

// zonelect is this project's elector on a Lease.
func zonelect(c *candidate) func(context.Context) {
	cfg, gv := config(), coordinationv1.SchemeGroupVersion
	cfg.APIPath, cfg.GroupVersion, cfg.NegotiatedSerializer = "/apis", &gv, scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientForConfigAndClient(cfg, &http.Client{Transport: c.network})
	if err != nil {
		c.stage.t.Fatal(err)
	}
	lock, err := lease.New(lease.Config{Client: client, Namespace: "ns", Name: "lock"})
	if err != nil {
		c.stage.t.Fatal(err)
	}
	e, err := election.New(election.Config{
		Lock: lock, Candidate: locks.Candidate{Identity: c.name}, Timing: c.timing.ours(), MeterProvider: c.meters(),
		TakeoverDelay: atOnce,
	})
	if err != nil {
		c.stage.t.Fatal(err)
	}
	return func(ctx context.Context) {
		_ = e.Run(ctx, func(ctx context.Context, _ election.Term) error { // why it ended shows elsewhere
			c.work(ctx)
			return ctx.Err()
		})
	}
}

// ours is a timing for candidates that do not share the lock with client-go's.
func (d durations) ours() election.Timing {
	return election.Timing{LeaseDuration: d.lease, RenewDeadline: d.deadline, RenewInterval: d.retry, Exclusive: true}
}

// clientGo is client-go's elector on a Lease.
func clientGo(c *candidate) func(context.Context) {
	e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: c.fullName(),
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: "ns", Name: "lock"},
			Client:     c.client().CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: c.name},
		},
		LeaseDuration: c.timing.lease, RenewDeadline: c.timing.deadline, RetryPeriod: c.timing.retry,
		ReleaseOnCancel: c.release,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: c.work,
			OnStoppedLeading: func() { c.stoppedLeading = true },
		},
	})
	if err != nil {
		c.stage.t.Fatal(err)
	}
	return func(ctx context.Context) { e.Run(logr.NewContext(ctx, logr.Discard())) }
}

// config has no rate limit, which would delay polls arbitrarily.
func config() *rest.Config {
	return &rest.Config{
		Host: "http://apiserver.test", QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	}
}

// client returns a client of client-go's.
func (c *candidate) client() kubernetes.Interface {
	client, err := kubernetes.NewForConfigAndClient(config(), &http.Client{Transport: c.network, Timeout: c.timeout})
	if err != nil {
		c.stage.t.Fatal(err)
	}
	return client
}

// atOnce removes the spread that keeps many candidates from writing at one
// instant.
func atOnce(election.Takeover) time.Duration { return 0 }
