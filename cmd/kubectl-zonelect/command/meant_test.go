// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/record"
)

// TestWhoeverNamesALockThatNobodyKnowsIsToldSoAndWhichOneWasMeant, by every command that takes the
// name of a lock, and before it asks for anything else.
func TestWhoeverNamesALockThatNobodyKnowsIsToldSoAndWhichOneWasMeant(t *testing.T) {
	exists := map[string]func(*world){
		"did you mean my-operator?": func(w *world) {
			w.putLease(newLease("my-operator", "a_1", "za"))
			w.putLease(newLease("your-operator", "a_1", "za"))
		},
		"did you mean old-operator?": func(w *world) { w.putConfigMap("old-operator", nil, byPod("old-0")) },
		"did you mean the one in namespace there?": func(w *world) {
			w.putLease(newLease("my-operator", "a_1", "za"))
			w.putLease(newLease("my-operato", "a_1", "za", func(l *coordinationv1.Lease) { l.Namespace = "there" }))
		},
	}
	verbs := []string{"status", "status -w", "handover", "migrate plan", "migrate advance", "migrate rollback", "migrate clean", "migrate advance --dry-run", "doctor"}
	for want, put := range exists {
		name := "my-operato"
		if strings.Contains(want, "old") {
			name = "odl-operator"
		}
		for _, verb := range verbs {
			t.Run(verb+" "+want, func(t *testing.T) {
				inABubble(t, func(t *testing.T, w *world) {
					put(w)
					r := w.runFor(time.Minute, append(strings.Fields(verb), name)...)
					if r.code != exitError || !strings.Contains(r.out+r.errors, want) || verb != "doctor" && !strings.HasPrefix(r.errors, "error: there is no lock "+name+" in namespace ns,") {
						t.Errorf("exit code %d: %s%s", r.code, r.out, r.errors)
					}
				})
			})
		}
	}
}

func TestTheLockThatWasMeantDiffersByTwoLettersAtMost(t *testing.T) {
	for name, want := range map[string]string{
		"memcached-operator-lok":   "memcached-operator-lock",
		"memcached-operator-lokc":  "memcached-operator-lock",
		"memcached-operator-lo":    "memcached-operator-lock",
		"mmcached-operator-locks":  "memcached-operator-lock",
		"memcached-operator-l":     "",
		"memcached-operator":       "",
		"memcached-operator-lock2": "memcached-operator-lock", // the first of equals
		"ob":                       "op",
		"xy":                       "", // nothing of it is left
		"x":                        "",
		"":                         "",
	} {
		if got := nearest(name, []string{"memcached-operator-lock3", "memcached-operator-lock", "op"}); got != want {
			t.Errorf("for %q it is %q, want %q", name, got, want)
		}
	}
}

// TestALockThatNeverWasALegacyLockIsNotMigrated: there is no step, so nobody is asked to confirm one.
func TestALockThatNeverWasALegacyLockIsNotMigrated(t *testing.T) {
	const never = "the lock is a Lease alone"
	for _, tc := range []struct {
		verb string
		code int
	}{{"plan", exitOK}, {"advance", exitRefused}, {"rollback --yes", exitRefused}, {"clean --dry-run", exitRefused}} {
		inABubble(t, func(t *testing.T, w *world) {
			w.three()
			r := w.run(append(strings.Fields("migrate "+tc.verb), "op")...)
			if r.code != tc.code || !strings.Contains(r.out, never) || strings.Contains(r.out+r.errors, "roll out the operator's version") || strings.Contains(r.errors, "terminal") {
				t.Errorf("%s: exit code %d: %s%s", tc.verb, r.code, r.out, r.errors)
			}
		})
	}
	inABubble(t, func(t *testing.T, w *world) { // it may yet be one
		w.putLease(newLease("op", "op-a_1", "za", phased(record.PhaseDual, 1)))
		if r := w.run("migrate", "plan", "op"); strings.Contains(r.out, never) {
			t.Errorf("it says:\n%s", r.out)
		}
	})
}
