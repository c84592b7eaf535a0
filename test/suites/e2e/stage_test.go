// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/environment"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/test/kit/slow"
	"github.com/zonelect/zonelect/test/kit/spans"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// network is namespaces in CI, and whatever works elsewhere.
func network() testbed.NetworkKind {
	if os.Getenv("CI") != "" {
		return testbed.Namespaces
	}
	return testbed.Auto
}

// stage is three zones, a leader in za, and an observer whose own connection
// stays alive.
type stage struct {
	*testbed.Testbed
	ctx      context.Context
	leader   *trial.Seat
	observer *trial.Observer
}

// newStage starts a leader whose connections all run to the apiserver of zone.
func newStage(t *testing.T, topology testbed.Topology, zone string) *stage {
	t.Helper()
	s := &stage{
		Testbed: trial.Bed(t, testbed.Config{Network: network(), Topology: topology, WithoutControllers: true}),
		ctx:     patience(t, 3*time.Minute),
	}
	must(t, s.Network.SteerVIP("za", zone))
	s.leader = start(t, s.Testbed, "za", "lock", "leader")
	_, err := s.leader.Await(s.ctx, "leading", time.Time{})
	must(t, err)
	must(t, s.Network.SteerVIP("za"))
	s.observer, err = trial.Observe(s.ctx, s.Cluster.RESTConfig("zc"), "lock")
	must(t, err)
	return s
}

// follow starts a follower in zb whose connections all run to the apiserver
// of zone.
func (s *stage) follow(t *testing.T, zone string) *trial.Seat {
	t.Helper()
	must(t, s.Network.SteerVIP("zb", zone))
	follower := start(t, s.Testbed, "zb", "lock", "follower")
	_, err := follower.Await(s.ctx, "following", time.Time{})
	must(t, err)
	must(t, s.Network.SteerVIP("zb"))
	return follower
}

// lose cuts a zone's power soon after a renewal, and returns the time of that.
func (s *stage) lose(t *testing.T, zone string) time.Time {
	t.Helper()
	awaitRenewal(t, s.ctx, s.observer)
	cut := time.Now()
	must(t, s.CutPower(s.ctx, zone))
	return cut
}

// followSlowly starts a follower in the test process that dials the apiserver of zone
// first. All answers reach it with that delay.
func (s *stage) followSlowly(t *testing.T, zone string, delay time.Duration, led chan<- election.Term) *election.Elector {
	t.Helper()
	var servers []string
	for _, z := range []string{zone, "zb", "zc"} {
		servers = append(servers, s.Cluster.RESTConfig(z).Host)
	}
	cfg := s.Cluster.RESTConfig(zone)
	cfg.Dial = slow.Way{Answers: slow.Constant(delay)}.Dial((&net.Dialer{}).DialContext, func() {})
	lock, err := (&environment.Environment{Config: cfg, Servers: servers, Namespace: "default", Timing: election.Timing{}.WithDefaults()}).LeaseLock("lock")
	must(t, err)
	e, err := election.New(election.Config{Lock: lock, Candidate: locks.Candidate{Identity: "slow"}})
	must(t, err)
	changes := e.Subscribe(s.ctx)
	ctx, stop := context.WithCancel(s.ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- e.Run(ctx, func(ctx context.Context, term election.Term) error {
			led <- term
			<-ctx.Done()
			return nil
		})
	}()
	t.Cleanup(func() {
		stop()
		must(t, <-ended)
	})
	for c := range changes {
		if c.Status.Holder == "leader" {
			break
		}
	}
	time.Sleep(10 * time.Second) // until its watch and its connections are established
	return e
}

// takeover awaits the follower's term, and returns how long after the lease's
// end it began.
func (s *stage) takeover(t *testing.T, follower *trial.Seat, cut time.Time) time.Duration {
	t.Helper()
	last := s.observer.Last()
	led, err := follower.Await(s.ctx, "leading", cut)
	must(t, err)
	lag := led.Time.Sub(last.Seen.Add(lease))
	t.Logf("power lost %v after the last renewal; the follower led %v after the lease had ended", cut.Sub(last.Seen), lag)
	if early := last.Sent.Add(lease).Sub(led.Time); early > 0 {
		t.Errorf("the follower led %v before the lease ended", early)
	}
	spansAgree(t, follower, last, led.Time)
	return lag
}

// spansAgree checks the winner's span against the outside observer. One of them may see a renewal late on a
// busy machine; test/suites/telemetry measures how exact spans are.
func spansAgree(t *testing.T, winner *trial.Seat, last trial.Renewal, led time.Time) {
	t.Helper()
	span, err := spans.LastFailover(winner.Traces)
	must(t, err)
	const most = 500 * time.Millisecond
	if d := span.StartTime.Sub(last.Seen); d.Abs() > most {
		t.Errorf("the span starts %v after the last renewal that the observer saw", d)
	}
	if d := span.EndTime.Sub(led); d.Abs() > most {
		t.Errorf("the span ends %v after the work had begun", d)
	}
	sum := time.Duration(0)
	for _, phase := range span.Phases {
		sum += phase.Duration()
	}
	if len(span.Phases) != 5 || sum != span.Duration() {
		t.Errorf("%d phases take %v, the failover %v", len(span.Phases), sum, span.Duration())
	}
}
