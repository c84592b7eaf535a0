// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

package e2e_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/operator"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// bridged is a program with client-go's elector, on a bridge.
type bridged struct {
	requests requests
	cancel   context.CancelFunc
	began    chan time.Time // receives the time when its work begins
	stopped  chan time.Time // receives the time when its work has stopped
	over     chan error
}

// requests counts requests by method.
type requests struct {
	next http.RoundTripper

	mu    sync.Mutex
	count map[string]int
}

func (r *requests) around(next http.RoundTripper) http.RoundTripper {
	r.next, r.count = next, map[string]int{}
	return r
}

// RoundTrip implements http.RoundTripper.
func (r *requests) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	r.count[req.Method]++
	r.mu.Unlock()
	return r.next.RoundTrip(req)
}

// take returns the counts since the last call.
func (r *requests) take() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.count
	r.count = map[string]int{}
	return taken
}

func startBridged(t *testing.T, b *testbed.Testbed, identity string) *bridged {
	t.Helper()
	p := &bridged{began: make(chan time.Time, 1), stopped: make(chan time.Time, 1), over: make(chan error, 1)}
	cfg := b.Cluster.RESTConfig("za")
	cfg.Wrap(p.requests.around)
	e, err := operator.New(t.Context(), "bridged", operator.Options{
		Config: cfg, Namespace: "default", Self: operator.SelfOptions{Identity: identity, Zone: "za"}, NoEvents: true,
	})
	must(t, err)
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(t.Context())
	bridge := operator.NewBridge(e)
	go func() { p.over <- bridge.Run(ctx, func(ctx context.Context) error { return p.elect(ctx, bridge) }) }()
	return p
}

// elect does what programs do with client-go's elector, except for the lock.
func (p *bridged) elect(ctx context.Context, bridge *operator.Bridge) error {
	var work sync.WaitGroup
	work.Add(1) // client-go starts the work in a goroutine of its own
	config := bridge.LeaderElection()
	config.ReleaseOnCancel = true
	config.Callbacks = leaderelection.LeaderCallbacks{
		OnStartedLeading: func(ctx context.Context) {
			defer work.Done()
			p.began <- time.Now()
			<-ctx.Done()
			time.Sleep(200 * time.Millisecond)
			p.stopped <- time.Now()
		},
		OnStoppedLeading: func() {},
	}
	elector, err := leaderelection.NewLeaderElector(config)
	if err != nil {
		return err
	}
	elector.Run(ctx)
	work.Wait()
	return nil
}

func TestAClientGoElectorOnABridgeAnswersFromMemoryAndTakesOverAtOnce(t *testing.T) {
	b := trial.Bed(t, plain)
	ctx := patience(t, 2*time.Minute)
	soonFrom := func(times chan time.Time) time.Time {
		t.Helper()
		select {
		case at := <-times:
			return at
		case <-ctx.Done():
			t.Fatal("not in time")
			return time.Time{}
		}
	}
	first := startBridged(t, b, "first")
	soonFrom(first.began)
	second := startBridged(t, b, "second")
	time.Sleep(2 * timing.DefaultRenewInterval)

	const idle = 30 * time.Second
	first.requests.take()
	second.requests.take()
	time.Sleep(idle)
	leader, follower := first.requests.take(), second.requests.take()
	t.Logf("in %v: the leader's requests %v, the follower's %v", idle, leader, follower)
	if len(follower) > 0 {
		t.Errorf("the idle follower made requests: %v", follower)
	}
	if puts := int(idle / timing.DefaultRenewInterval); leader[http.MethodPut] > puts+1 || len(leader) > 1 {
		t.Errorf("the leader's requests are %v, want %d renewals and no others", leader, puts)
	}

	first.cancel()
	stopped := soonFrom(first.stopped)
	took := soonFrom(second.began).Sub(stopped)
	t.Logf("from work stopped to work started: %v", took)
	if took < 0 || took > time.Second {
		t.Errorf("from work stopped to work started it took %v, want up to 150ms and what a busy machine adds", took)
	}
	must(t, <-first.over)
	second.cancel()
	soonFrom(second.stopped)
	must(t, <-second.over)
	client, err := kubernetes.NewForConfig(b.Cluster.RESTConfig("za"))
	must(t, err)
	lease, err := client.CoordinationV1().Leases("default").Get(ctx, "bridged", metav1.GetOptions{})
	must(t, err)
	if holder(lease) != "" {
		t.Errorf("in the end the Lease is held by %q", holder(lease))
	}
}
