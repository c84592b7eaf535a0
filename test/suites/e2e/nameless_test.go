// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"context"
	"net"
	"path"
	"sync"
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
	"github.com/zonelect/zonelect/test/kit/durations"
)

// campaign runs a candidate that calls lead when it leads.
type campaign func(ctx context.Context, cfg *rest.Config, identity string, lead func(context.Context))

// TestAFollowerTakesOverThoughTheNameDoesNotResolve: the leader is cut off while no candidate can look up the API
// server's name. The follower leads within the lease and two seconds. client-go's candidates campaign beside.
func TestAFollowerTakesOverThoughTheNameDoesNotResolve(t *testing.T) {
	g := newGround(t, harmless, "nameless")
	var mu sync.Mutex
	took := map[string]time.Duration{}
	atOnce(t, map[string]campaign{
		"zonelect": func(ctx context.Context, cfg *rest.Config, identity string, lead func(context.Context)) {
			_ = operator.Run(ctx, "lock", func(ctx context.Context, _ election.Term) error {
				lead(ctx)
				return nil
			}, operator.Options{Config: cfg, Namespace: g.namespace, Self: operator.SelfOptions{Identity: identity}, NoEvents: true})
		},
		"client-go": func(ctx context.Context, cfg *rest.Config, identity string, lead func(context.Context)) {
			cfg.Timeout = timing.DefaultRenewDeadline / 2 // as controller-runtime
			lock, err := resourcelock.New(resourcelock.LeasesResourceLock, g.namespace, "client-go", nil,
				kubernetes.NewForConfigOrDie(cfg).CoordinationV1(), resourcelock.ResourceLockConfig{Identity: identity})
			if err != nil {
				panic(err)
			}
			leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
				Lock:          lock,
				LeaseDuration: timing.DefaultLeaseDuration, RenewDeadline: timing.DefaultRenewDeadline, RetryPeriod: timing.DefaultRenewInterval,
				Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: lead, OnStoppedLeading: func() {}},
			})
		},
	}, func(t *testing.T, run campaign) {
		next := g.untilTheNextLeads(t, run)
		mu.Lock()
		defer mu.Unlock()
		took[path.Base(t.Name())] = next
	})
	t.Logf("after the cut the next one leads: %v", took)
	must(t, durations.Beside(t.Name(), "the name does not resolve: the next one leads", took["zonelect"], took["client-go"]))
	if took["zonelect"] > timing.DefaultLeaseDuration+2*time.Second {
		t.Error("the next leader came late")
	}
}

// untilTheNextLeads returns when the second of two candidates leads after no name resolves and the first is cut off.
func (g *ground) untilTheNextLeads(t *testing.T, run campaign) time.Duration {
	var gone atomic.Bool
	led := make(chan string, 10)
	enter := func(identity string) *connrotation.Dialer {
		dialer := connrotation.NewDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			if gone.Load() {
				return nil, &net.DNSError{Err: "no such host", Name: addr, IsNotFound: true}
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		})
		cfg := g.Cluster.RESTConfig("za")
		cfg.Dial = dialer.DialContext
		go run(t.Context(), cfg, identity, func(ctx context.Context) {
			led <- identity
			<-ctx.Done()
		})
		return dialer
	}
	first := enter("first")
	<-led
	enter("second")
	time.Sleep(10 * time.Second) // the second follows
	gone.Store(true)
	began := time.Now()
	first.CloseAll()
	select {
	case <-led:
	case <-time.After(soon):
		t.Error("nobody leads")
	}
	return time.Since(began)
}
