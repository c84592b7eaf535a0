// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/internal/environment"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/test/kit/durations"
	"github.com/zonelect/zonelect/test/kit/slow"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// TestAZonesLossIsFollowedSoonThoughEachAnswerIsLate: the follower's connections die
// with the zone. Each answer on every other connection, also to a TLS handshake, is
// 1.5 s late.
func TestAZonesLossIsFollowedSoonThoughEachAnswerIsLate(t *testing.T) {
	s := newStage(t, "za")
	led := make(chan election.Term, 1)
	follower := s.followSlowly(t, "za", 1500*time.Millisecond, led)
	s.lose(t, "za")
	last := s.observer.Last()
	term := <-led
	must(t, durations.Record(t.Name(), "a follower leads after the lease has ended", term.Began.Sub(last.Seen.Add(lease))))
	if early := last.Sent.Add(lease).Sub(term.Began); early > 0 {
		t.Errorf("the follower led %v before the lease had ended", early)
	}
	if follower.Status().State != status.StateLeader {
		t.Errorf("it is a %s", follower.Status().State)
	}
}

func TestWhenAnotherZoneLosesPowerTheLeaderKeepsItsLease(t *testing.T) {
	s := newStage(t, "zb") // the leader's connections run to the zone that dies
	cut := s.lose(t, "zb")
	for last := s.observer.Last(); time.Since(cut) < 2*lease; last = nextRenewal(t, s.ctx, s.observer, last) {
		if last.Holder != s.leader.Identity {
			t.Fatalf("%s holds the lock", last.Holder)
		}
	}
	for _, e := range s.leader.Events() {
		if e.Event == "stopping" {
			t.Errorf("the leader stopped: %s", e.Cause)
		}
	}
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
func newStage(t *testing.T, zone string) *stage {
	t.Helper()
	s := &stage{
		Testbed: trial.Bed(t, testbed.Config{Network: network(), WithoutControllers: true}),
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
