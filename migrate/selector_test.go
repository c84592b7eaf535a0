// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/zonelect/zonelect/locks/annotation"
	"github.com/zonelect/zonelect/migrate"
)

// renamed gives a pod the labels that it had before an upgrade renamed the Deployment.
func renamed(pod *corev1.Pod) { pod.Labels = map[string]string{"app": "op-before"} }

// with returns the same migration as somebody with another selector takes it.
func (s *stage) with(selector string) *migrate.Migration {
	s.T.Helper()
	c := s.config
	c.Selector = selector
	m, err := migrate.New(c)
	must(s.T, err)
	return m
}

// TestM9AMismatchOutlivesThePodThatShowedIt: the selector does not match the old leader. It goes, and
// so do all candidates that saw it; another old pod, which nobody counts, waits at the shield. Nothing
// that gives the legacy lock up passes, until a person names a selector that matches the old leader too,
// or acknowledges exactly that.
func TestM9AMismatchOutlivesThePodThatShowedIt(t *testing.T) {
	scenario(t, func(s *stage) {
		s.runs("old", renamed)
		s.holds("old")
		s.runs("old-follower", renamed)
		a := s.joins("a")
		time.Sleep(5 * time.Second)
		s.wants(0)
		s.vanishes("old")
		s.follows(migrate.Dual)
		b := s.joins("b")
		s.leaves(a)
		s.follows(migrate.Dual)
		s.wants(1)

		failed := s.refuses(s.Advance, migrate.Options{}, "selector")
		if !strings.Contains(failed[0].Detail, `"app=op"`) || !strings.Contains(failed[0].Detail, "old/uid-old") {
			s.T.Errorf("it says %q", failed[0].Detail)
		}
		s.refuses(s.Advance, migrate.Options{Acknowledge: []string{"legacy-pods", "workload", "no-way-back"}}, "selector")
		right := s.with("app in (op, op-before)")
		s.refuses(right.Advance, migrate.Options{}, "legacy-pods")
		s.goes(s.Advance, migrate.Sealed, "selector")
		s.refuses(s.Clean, forGood, "selector")
		s.refuses(right.Clean, migrate.Options{}, "no-way-back", "legacy-pods")

		s.leaves(b)
		s.server.Delete(leasePath) // by hand: the shield still says who held the lock
		s.joins("c")
		s.follows(migrate.Sealed)
		s.refuses(s.Clean, forGood, "selector")
		s.vanishes("old-follower")
		s.goes(right.Clean, migrate.Clean, "no-way-back", "selector") // with the Lease its labels are gone
	})
}

// TestM9AHolderThatNobodyCouldCountIsNoMatch: its pod was gone before a candidate looked, or belongs to
// nobody whom the selector matches.
func TestM9AHolderThatNobodyCouldCountIsNoMatch(t *testing.T) {
	scenario(t, func(s *stage) {
		s.holds("old")
		s.joins("a")
		s.follows(migrate.Dual)
		s.refuses(s.Advance, migrate.Options{}, "selector")
		s.goes(s.Advance, migrate.Sealed, "selector")
		s.refuses(s.Clean, migrate.Options{}, "selector", "no-way-back")
	})
}

// TestM9TheSelectorMatchesTheHolderOfARecord, as the pod of its identity shows while it is there. An
// identity that is no pod's is no match.
func TestM9TheSelectorMatchesTheHolderOfARecord(t *testing.T) {
	for identity, match := range map[string]bool{"old_1": true, "before_1": false, "stranger": false} {
		scenario(t, func(s *stage) {
			s.runs("old")
			s.runs("before", renamed)
			s.elects(annotation.Endpoints, identity)
			s.joinsTwin("a", annotation.Endpoints)
			s.vanishes("old")
			s.vanishes("before")
			time.Sleep(16 * time.Second)
			s.follows(migrate.Dual)
			if !match {
				s.refuses(s.Clean, forGood, "selector")
			}
			s.goes(s.Clean, migrate.Clean, map[bool][]string{true: {"no-way-back"}, false: {"no-way-back", "selector"}}[match]...)
		})
	}
}
