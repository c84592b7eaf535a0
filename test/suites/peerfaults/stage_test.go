// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peerfaults_test shows the faults of other electors that
// docs/chaos-findings.md lists: those of client-go in the version of go.mod, and
// those of legacy electors. It runs in virtual time, on an API server in memory.
// Each test plays one schedule twice: the other elector must show the fault, and
// zonelect must not. If a test fails because a fault is gone, somebody has fixed
// the fault: correct the page, and remove the test.
package peerfaults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/test/kit/history"
)

const (
	leasePath = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/lock"
	mapPath   = "/api/v1/namespaces/ns/configmaps/lock"
)

// durations are the settings of both kinds of candidates.
type durations struct{ lease, deadline, retry time.Duration }

// usual is the default of both.
var usual = durations{15 * time.Second, 10 * time.Second, 2 * time.Second}

// elector makes the election of a candidate; the returned function runs it.
type elector func(c *candidate) (run func(context.Context))

// shows plays a schedule with the other electors, which must show the fault
// that it looks for, and with zonelect's, which must not.
func shows(t *testing.T, others elector, schedule func(s *stage) (fault bool)) {
	t.Helper()
	t.Run("theirs", func(t *testing.T) {
		if !play(t, others, schedule) {
			t.Error("the fault is gone: correct docs/chaos-findings.md")
		}
	})
	t.Run("zonelect", func(t *testing.T) {
		if play(t, zonelect, schedule) {
			t.Error("zonelect has it too")
		}
	})
}

// stage is a lock on an API server in memory, and its candidates.
type stage struct {
	t          *testing.T
	timing     durations
	server     *apitest.Server
	elector    elector
	candidates []*candidate
}

// play runs a schedule in a bubble of virtual time, which begins at a full
// second.
func play(t *testing.T, e elector, schedule func(s *stage) bool) (fault bool) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, timing: usual, server: apitest.NewServer(), elector: e}
		s.server.Lingers = isPod
		fault = schedule(s)
		if s.candidates[0].span().Start.IsZero() {
			t.Error("the first candidate has never led")
		}
		for _, c := range s.candidates {
			c.mend()
			c.cancel()
		}
		for _, c := range s.candidates {
			<-c.done
			c.works.Wait()
		}
	})
	return fault
}

// pass lets time pass, and waits until nothing more happens at its end.
func (s *stage) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// until waits for something, an hour at most, and returns how long that took.
func (s *stage) until(what func() bool) time.Duration {
	start := time.Now()
	for synctest.Wait(); !what(); synctest.Wait() {
		if time.Since(start) > time.Hour {
			s.t.Error("what is waited for does not happen")
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(start)
}

// lease returns the current Lease.
func (s *stage) lease() (l coordinationv1.Lease) {
	s.server.Mu.Lock()
	defer s.server.Mu.Unlock()
	if err := json.Unmarshal(apitest.Marshal(s.server.Objects[leasePath]), &l); err != nil {
		s.t.Fatal(err)
	}
	return l
}

// holder returns the holder of the Lease.
func (s *stage) holder() string {
	if h := s.lease().Spec.HolderIdentity; h != nil {
		return *h
	}
	return ""
}

// remove deletes the lock, as a person might.
func (s *stage) remove() {
	s.server.Delete(leasePath)
	s.server.Delete(mapPath)
	synctest.Wait()
}

// candidate is one process. Its work is configured before start.
type candidate struct {
	*network
	name     string
	uid      types.UID // of its pod
	stage    *stage
	timing   durations
	stopTime time.Duration // how long the work takes to stop
	release  bool          // ReleaseOnCancel
	timeout  time.Duration // of client-go's requests; zero for none

	stoppedLeading bool                    // client-go has called OnStoppedLeading
	reader         *sdkmetric.ManualReader // zonelect's

	cancel context.CancelFunc
	done   chan struct{} // closed when the elector's Run has returned
	works  sync.WaitGroup

	mu  sync.Mutex
	led history.Span // the last work
}

func (s *stage) candidate(name string) *candidate {
	c := &candidate{
		network: &network{server: apitest.Transport(s.server), change: make(chan struct{})},
		name:    name, uid: types.UID(fmt.Sprint("uid-", len(s.candidates))), stage: s, timing: s.timing, done: make(chan struct{}),
	}
	s.candidates = append(s.candidates, c)
	return c
}

// start lets c campaign.
func (c *candidate) start() *candidate {
	c.settle()
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	run := c.stage.elector(c)
	go func() {
		defer close(c.done)
		run(ctx)
	}()
	synctest.Wait()
	return c
}

// work is what c does as the leader.
func (c *candidate) work(ctx context.Context) {
	c.works.Add(1)
	defer c.works.Done()
	c.mu.Lock()
	c.led = history.Span{Pod: c.name, Start: time.Now(), Open: true}
	c.mu.Unlock()
	<-ctx.Done()
	time.Sleep(c.stopTime)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.led.End, c.led.Open = time.Now(), false
}

// leads reports whether c's work runs.
func (c *candidate) leads() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.led.Open
}

func (c *candidate) rests() bool { return !c.leads() }

// span is when c last worked.
func (c *candidate) span() history.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	led := c.led
	if led.Open {
		led.End = time.Now()
	}
	return led
}

// overlap is how long two candidates worked at the same time.
func (s *stage) overlap(a, b *candidate) time.Duration {
	d := a.span().Shared(b.span())
	s.t.Logf("%s and %s lead beside each other for %v", a.name, b.name, d.Round(10*time.Millisecond))
	return d
}

// network is a candidate's way to the API server. Held-up traffic goes on when
// the way is mended, as TCP retransmits what was lost.
type network struct {
	server http.RoundTripper

	mu       sync.Mutex
	fault    fault
	change   chan struct{} // closed when fault changes
	requests int           // requests sent, without watches
}

// fault is how a way fails.
type fault struct {
	requests bool // neither requests nor answers arrive
	answers  bool // answers do not arrive
	lost     bool // answers that were sent meanwhile never arrive
	deaf     bool // no request ends with its context, as in a stopped process
}

// cut lets nothing through; mend ends it.
func (n *network) cut() { n.set(fault{requests: true, answers: true}) }

// stop acts as if the process were stopped in the middle of its next request.
func (n *network) stop() { n.set(fault{requests: true, answers: true, deaf: true}) }

func (n *network) mend() { n.set(fault{}) }

func (n *network) set(f fault) {
	n.mu.Lock()
	n.fault = f
	close(n.change)
	n.change = make(chan struct{})
	n.mu.Unlock()
	synctest.Wait()
}

func (n *network) now() (fault, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.fault, n.change
}

// RoundTrip sends a request.
func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("watch") != "true" {
		n.mu.Lock()
		n.requests++
		n.mu.Unlock()
	}
	if err := n.wait(r.Context(), func(f fault) bool { return f.requests }); err != nil {
		return nil, err
	}
	resp, err := n.server.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if f, _ := n.now(); f.lost {
		<-r.Context().Done()
	}
	resp.Body = &body{resp.Body, r.Context(), n}
	if err := n.arrive(r.Context()); err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// arrive waits until answers arrive.
func (n *network) arrive(ctx context.Context) error {
	return n.wait(ctx, func(f fault) bool { return f.answers })
}

// wait waits for as long as the way holds up traffic.
func (n *network) wait(ctx context.Context, held func(fault) bool) error {
	for {
		f, change := n.now()
		if !held(f) {
			return ctx.Err()
		}
		ended := ctx.Done()
		if f.deaf {
			ended = nil
		}
		select {
		case <-change:
		case <-ended:
			return ctx.Err()
		}
	}
}

// body is an answer on its way.
type body struct {
	inner interface {
		Read(p []byte) (int, error)
		Close() error
	}
	ctx context.Context
	way *network
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.inner.Read(p)
	if late := b.way.arrive(b.ctx); late != nil {
		return 0, late
	}
	return n, err
}

func (b *body) Close() error { return b.inner.Close() }

// sent is how many requests were sent, without watches.
func (n *network) sent() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.requests
}
