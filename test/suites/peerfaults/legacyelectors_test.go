// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package peerfaults_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/legacyelectors"
)

// clientGoOfThePast is client-go's elector as it was up to 0.26, on a ConfigMap.
func clientGoOfThePast(c *candidate) func(context.Context) {
	lock, err := legacyelectors.NewLock(c.client(), legacyelectors.ConfigMap, "ns", "lock", c.name)
	if err != nil {
		c.stage.t.Fatal(err)
	}
	e := &legacyelectors.Elector{
		Lock: lock, Lease: c.timing.lease, Deadline: c.timing.deadline, Retry: c.timing.retry, Release: c.release,
		Print: func(events.Event) {}, Work: func(ctx context.Context, _ legacyelectors.Term) { c.work(ctx) },
	}
	return e.Run
}

// It judged a record by its own lease, so that no timing could be changed while
// an operator ran.
func TestClientGoOfThePastHeedsNoLeaseButItsOwn(t *testing.T) {
	shows(t, clientGoOfThePast, func(s *stage) bool {
		s.timing = durations{time.Minute, 40 * time.Second, 2 * time.Second}
		a, b := s.candidate("a").start(), s.candidate("b")
		b.timing = usual
		s.pass(5 * time.Second)
		a.cut()
		b.start()
		s.until(b.leads)
		s.until(a.rests)
		return s.overlap(a, b) > 0
	})
}

// forLife is a leader-for-life in the pod of the candidate's name.
func forLife(v legacyelectors.Variant) elector {
	return func(c *candidate) func(context.Context) {
		f := &legacyelectors.ForLife{
			Client: c.client(), Variant: v, Namespace: "ns", Lock: "lock", PodName: c.name, PodUID: c.uid,
			Print: func(events.Event) {},
		}
		return func(ctx context.Context) {
			f.Run(ctx, func(ctx context.Context, _ legacyelectors.Term) { c.work(ctx) })
		}
	}
}

// operator-lib from 0.2 on takes a node that is not Ready to be dead.
func TestLeaderForLifeTakesTheLockOfALeaderBehindAPartition(t *testing.T) {
	shows(t, forLife(legacyelectors.NotReady), func(s *stage) bool {
		a, b := s.candidate("a"), s.candidate("b")
		a.start()
		b.start()
		a.cut()
		s.pass(45 * time.Second)
		a.node(corev1.ConditionUnknown)
		s.pass(10 * time.Minute)
		return s.overlap(a, b) > 0
	})
}

// operator-sdk from 0.13 to 0.18.0 read the lock once. When the pod that owned it then
// was marked as deleted, it deleted the lock by name, whoever owned it by now.
func TestLeaderForLifeDeletesTheLockOfItsSuccessor(t *testing.T) {
	shows(t, forLife(legacyelectors.Stale), func(s *stage) bool {
		a, b, c := s.candidate("a"), s.candidate("b"), s.candidate("c")
		a.start()
		b.start()
		c.start()
		a.die()
		s.pass(10 * time.Minute)
		return s.overlap(b, c) > 0
	})
}

// operator-sdk from 0.18.1 on, and operator-lib 0.1, waited for the collector,
// which waits for a kubelet.
func TestLeaderForLifeIsNeverFollowedOnADeadNode(t *testing.T) {
	shows(t, forLife(legacyelectors.Original), func(s *stage) bool {
		a, b := s.candidate("a"), s.candidate("b")
		a.start()
		b.start()
		a.die()
		s.pass(time.Hour)
		return !b.leads()
	})
}

// A lock that is deleted is free, and its leader never looks again.
func TestLeaderForLifeDoesNotHearThatItsLockIsGone(t *testing.T) {
	shows(t, forLife(legacyelectors.Original), func(s *stage) bool {
		a, b := s.candidate("a").start(), s.candidate("b").start()
		s.pass(5 * time.Second)
		s.remove()
		s.pass(10 * time.Minute)
		return s.overlap(a, b) > 0
	})
}

// A pod takes a lock that names it to be its own. In a StatefulSet it so takes
// its predecessor's, which the collector removes.
func TestLeaderForLifeTakesItsPredecessorsLockForItsOwn(t *testing.T) {
	shows(t, forLife(legacyelectors.Original), func(s *stage) bool {
		old := s.candidate("a").start()
		old.crash()
		a, b := s.candidate("a"), s.candidate("b")
		a.start()
		b.start()
		s.pass(time.Minute)
		s.remove()
		s.pass(10 * time.Minute)
		return s.overlap(a, b) > 0
	})
}

// A leader-for-life's ConfigMap has no record, so that an elector of the past
// on a ConfigMap of that name found it free. A zonelect candidate looks for
// both marks before it campaigns: package multilock tests that.
func TestClientGoOfThePastTakesALeaderForLifesLock(t *testing.T) {
	if !play(t, forLife(legacyelectors.Original), func(s *stage) bool {
		a := s.candidate("a").start()
		s.elector = clientGoOfThePast
		b := s.candidate("b").start()
		s.pass(10 * time.Minute)
		return s.overlap(a, b) > 0
	}) {
		t.Error("the fault is gone: correct docs/chaos-findings.md")
	}
}
