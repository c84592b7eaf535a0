// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/demo"
	"github.com/zonelect/zonelect/internal/apitest"
)

// leases are the paths of the Leases that there are.
func (w *world) leases() []string {
	w.server.Mu.Lock()
	defer w.server.Mu.Unlock()
	var all []string
	for path := range w.server.Objects {
		if strings.Contains(path, "/leases/") {
			all = append(all, path)
		}
	}
	return all
}

// varying is what differs from run to run: who wins, when, and by how much.
var varying = regexp.MustCompile(`zonelect-demo-[a-z0-9]{5}|candidate-\d_\d| *\d+\.\ds  |\d+(\.\d+)?( s|µs|ms|s)\b`)

// TestADemonstrationKeepsAllPromisesAndLeavesNothing, in less than a minute.
func TestADemonstrationKeepsAllPromisesAndLeavesNothing(t *testing.T) {
	inABubble(t, func(w *world) {
		began := time.Now()
		r := w.run("demo")
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it took %v", took)
		}
		if left := w.leases(); len(left) > 0 {
			t.Errorf("%v are left", left)
		}
		r.out = varying.ReplaceAllString(r.out, "*")
		golden(t, "demo", r)
	})
}

// TestDemoCreatesNothingWhereItMayNotWrite, and says who grants that.
func TestDemoCreatesNothingWhereItMayNotWrite(t *testing.T) {
	inABubble(t, func(w *world) {
		w.forbid("create", "/leases")
		r := w.run("demo")
		if r.code != exitError || !strings.Contains(r.errors, "ClusterRole zonelect-demo grants that") || len(w.leases()) > 0 {
			t.Errorf("exit code %d, %v: %s%s", r.code, w.leases(), r.out, r.errors)
		}
	})
}

// TestWhoeverInterruptsADemonstrationFindsNothingLeft, whenever that is: at once, and while the leader is cut off.
func TestWhoeverInterruptsADemonstrationFindsNothingLeft(t *testing.T) {
	for _, after := range []time.Duration{time.Nanosecond, time.Second, 10 * time.Second} {
		inABubble(t, func(w *world) {
			r := w.runFor(after, "demo")
			if left := w.leases(); r.code != exitInterrupted || r.errors != "" || len(left) > 0 {
				t.Errorf("after %v: exit code %d, %v are left: %s%s", after, r.code, left, r.out, r.errors)
			}
		})
	}
}

// TestABrokenPromiseIsAnError: here nobody can lead after the first.
func TestABrokenPromiseIsAnError(t *testing.T) {
	inABubble(t, func(w *world) {
		began := time.Now()
		w.server.Before = func(verb, path string) (int, apitest.Object) {
			if verb == "update" && time.Since(began) > 3*time.Second {
				return apitest.Forbidden(verb, path)
			}
			return 0, nil
		}
		r := w.run("demo")
		says := strings.Contains(r.out, "✗") && strings.Contains(r.errors, "not kept: see "+demo.Page)
		if r.code != exitError || !says || len(w.leases()) > 0 {
			t.Errorf("exit code %d, %v are left: %s%s", r.code, w.leases(), r.out, r.errors)
		}
	})
}
