// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/connrotation"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/operator"
)

// name is how a candidate finds the API server: by a name that may cease to resolve.
type name struct {
	*connrotation.Dialer
	gone atomic.Bool
}

func (n *name) config(cfg *rest.Config) *rest.Config {
	n.Dialer = connrotation.NewDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		if n.gone.Load() {
			return nil, &net.DNSError{Err: "no such host", Name: addr, IsNotFound: true}
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	})
	cfg = rest.CopyConfig(cfg)
	cfg.Dial = n.DialContext
	return cfg
}

// TestAFollowerTakesOverThoughTheNameDoesNotResolve, within the lease and two seconds. What client-go takes is
// only said.
func TestAFollowerTakesOverThoughTheNameDoesNotResolve(t *testing.T) {
	g := newGround(t, harmless, "nameless")
	for kind, run := range map[string]func(ctx context.Context, cfg *rest.Config, identity string, leads func()){
		"zonelect": func(ctx context.Context, cfg *rest.Config, identity string, leads func()) {
			_ = operator.Run(ctx, "zonelect", func(ctx context.Context, _ election.Term) error {
				leads()
				<-ctx.Done()
				return nil
			}, operator.Options{Config: cfg, Namespace: g.namespace, Self: operator.SelfOptions{Identity: identity}, NoEvents: true})
		},
		"client-go": func(ctx context.Context, cfg *rest.Config, identity string, leads func()) {
			client, err := kubernetes.NewForConfig(cfg)
			must(t, err)
			lock, err := resourcelock.New(resourcelock.LeasesResourceLock, g.namespace, "client-go", client.CoreV1(), client.CoordinationV1(),
				resourcelock.ResourceLockConfig{Identity: identity})
			must(t, err)
			leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
				Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
				Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { leads() }, OnStoppedLeading: func() {}},
			})
		},
	} {
		led, names := make(chan string, 10), map[string]*name{"first": {}, "second": {}}
		for _, identity := range []string{"first", "second"} {
			go run(t.Context(), names[identity].config(g.Cluster.RESTConfig("za")), identity, func() { led <- identity })
			if identity == "first" {
				<-led
			}
		}
		time.Sleep(10 * time.Second) // the second follows
		for _, n := range names {
			n.gone.Store(true)
		}
		began := time.Now()
		names["first"].CloseAll() // it is cut off
		select {
		case <-led:
			took := time.Since(began).Round(time.Millisecond)
			t.Logf("%s: the next leader after %v", kind, took)
			if kind == "zonelect" && took > timing.DefaultLeaseDuration+2*time.Second {
				t.Errorf("that took more than %v", timing.DefaultLeaseDuration+2*time.Second)
			}
		case <-time.After(time.Minute):
			t.Logf("%s: nobody leads after a minute", kind)
			if kind == "zonelect" {
				t.Fail()
			}
		}
	}
}
