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

	"k8s.io/client-go/util/connrotation"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/operator"
)

// TestAFollowerTakesOverThoughTheNameDoesNotResolve: the leader is cut off while no candidate can look up the API
// server's name. The follower leads within the lease and two seconds.
func TestAFollowerTakesOverThoughTheNameDoesNotResolve(t *testing.T) {
	g := newGround(t, harmless, "nameless")
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
		go func() {
			_ = operator.Run(t.Context(), "lock", func(ctx context.Context, _ election.Term) error {
				led <- identity
				<-ctx.Done()
				return nil
			}, operator.Options{Config: cfg, Namespace: g.namespace, Self: operator.SelfOptions{Identity: identity}, NoEvents: true})
		}()
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
		if took := time.Since(began); took > timing.DefaultLeaseDuration+2*time.Second {
			t.Errorf("the next leader came after %v", took)
		}
	case <-time.After(time.Minute):
		t.Error("nobody leads after a minute")
	}
}
