// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/environment"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

// elector is what both implementations have in common.
type elector struct {
	run     func(ctx context.Context) error // until ctx ends; then it releases the lock
	follows func(leader string) bool        // reports whether it waits for that leader
}

// kind makes an elector, on connections of its own, for the Lease default/lock.
// Its work is leading, which returns when its context ends.
type kind func(cfg *rest.Config, lock, identity string, leading func(work context.Context)) (elector, error)

func zonelect(cfg *rest.Config, name, identity string, leading func(context.Context)) (elector, error) {
	e := &environment.Environment{Config: cfg, Namespace: "default", Timing: election.Timing{}.WithDefaults()}
	clients, err := e.Clients()
	if err != nil {
		return elector{}, err
	}
	lock, err := lease.New(e.Lease(clients, name))
	if err != nil {
		return elector{}, err
	}
	return elected(election.Config{
		Lock: lock, Candidate: locks.Candidate{Identity: identity, Zone: "za"},
		TakeoverDelay: first, // as for the first candidate among those that know each other
	}, leading)
}

func first(election.Takeover) time.Duration { return 0 }

// attending is the candidate that an operator's election uses, in a pod: it
// keeps a presence, and knows those of the others.
func attending(cfg *rest.Config, name, identity string, leading func(context.Context)) (elector, error) {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return elector{}, err
	}
	pod := testbed.PodManifest("za", identity, "default", nil)
	pod, err = client.CoreV1().Pods("default").Create(context.Background(), pod, metav1.CreateOptions{})
	if err != nil {
		return elector{}, err
	}
	self := environment.Self{Identity: identity, PodName: pod.Name, PodUID: string(pod.UID), Zone: "za"}
	env := &environment.Environment{Config: cfg, Self: self, Namespace: "default", Timing: election.Timing{}.WithDefaults()}
	lock, presence, err := env.Plain(name)
	if err != nil {
		return elector{}, err
	}
	return elected(election.Config{Lock: lock, Candidate: self.Candidate(), WatchPeers: presence.Peers}, leading)
}

func elected(c election.Config, leading func(context.Context)) (elector, error) {
	e, err := election.New(c)
	if err != nil {
		return elector{}, err
	}
	return elector{
		run: func(ctx context.Context) error {
			defer c.Lock.Capabilities().CloseConnections()
			return e.Run(ctx, func(work context.Context, _ election.Term) error {
				leading(work)
				return nil
			})
		},
		follows: func(leader string) bool {
			s := e.Status()
			return s.State == status.StateFollower && s.Holder == leader
		},
	}, nil
}

// clientGo is client-go's elector with controller-runtime's settings.
func clientGo(cfg *rest.Config, name, identity string, leading func(context.Context)) (elector, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = 0                            // client-go's default
	cfg.Timeout = 5 * time.Second          // half of RenewDeadline
	cfg.Dial = new(net.Dialer).DialContext // or all electors would share one connection
	hc, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return elector{}, err
	}
	client, err := kubernetes.NewForConfigAndClient(cfg, hc)
	if err != nil {
		return elector{}, err
	}
	e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: name},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration: timing.DefaultLeaseDuration, RenewDeadline: timing.DefaultRenewDeadline, RetryPeriod: timing.DefaultRenewInterval,
		ReleaseOnCancel: true,
		Callbacks:       leaderelection.LeaderCallbacks{OnStartedLeading: leading, OnStoppedLeading: func() {}},
	})
	if err != nil {
		return elector{}, err
	}
	return elector{
		run: func(ctx context.Context) error {
			defer utilnet.CloseIdleConnectionsFor(hc.Transport)
			e.Run(logr.NewContext(ctx, logr.Discard()))
			return nil
		},
		follows: func(leader string) bool { return e.GetLeader() == leader },
	}, nil
}

// wire is one candidate's way to the API. It counts the requests, and can be
// cut.
type wire struct {
	next         http.RoundTripper
	cut          atomic.Bool // nothing gets through, and nothing fails either
	puts, others atomic.Int64
}

// config returns cfg with its requests going through w.
func (w *wire) config(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		w.next = next
		return w
	})
	return cfg
}

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodPut {
		w.puts.Add(1)
	} else {
		w.others.Add(1)
	}
	if w.cut.Load() {
		if req.Body != nil {
			req.Body.Close()
		}
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	return w.next.RoundTrip(req)
}

// WrappedRoundTripper allows closing the idle connections below.
func (w *wire) WrappedRoundTripper() http.RoundTripper { return w.next }
