// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/internal/record"
)

// TestALockIsNamedAsKubectlNamesIt, wherever a command takes a LOCK: what 'status -o name' prints
// can be given to any of them.
func TestALockIsNamedAsKubectlNamesIt(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		w.trio("op")
		for _, c := range Root().Commands() {
			for _, c := range append(c.Commands(), c) {
				if !strings.Contains(c.Use, "LOCK") {
					continue
				}
				line := strings.TrimPrefix(c.CommandPath(), "kubectl zonelect ")
				for _, name := range []string{"lease/op", "leases/op", "lease.coordination.k8s.io/op", "Lease.v1.coordination.k8s.io/op"} {
					args := append(strings.Fields(line), name)
					if line == "handover" || strings.HasPrefix(line, "migrate ") && line != "migrate plan" {
						args = append(args, "--dry-run")
					}
					if r := w.run(args...); r.code == exitUsage || strings.Contains(r.errors, "there is no lock") || strings.Contains(r.errors, "invalid resource name") {
						t.Errorf("%q: exit code %d, %s", args, r.code, r.errors)
					}
				}
				for _, name := range []string{"pod/op", "lease/", "/op", "lease/op/x"} {
					if r := w.run(append(strings.Fields(line), name)...); r.code != exitUsage || !strings.Contains(r.errors, "is no LOCK: give its name") {
						t.Errorf("%s %s: exit code %d, %s", line, name, r.code, r.errors)
					}
				}
			}
		}
	})
}

// TestSeveralLocksAreAListInTheirOrder, which does not repeat below the table what a row says.
func TestSeveralLocksAreAListInTheirOrder(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		w.fill()
		if r := w.run("status", "plain", "lease/given-up", "-o", "name"); r.out != "lease.coordination.k8s.io/plain\nlease.coordination.k8s.io/given-up\n" {
			t.Errorf("exit code %d: %s%s", r.code, r.out, r.errors)
		}
		if r := w.run("status", "plain", "given-up"); r.code != exitOK || !strings.Contains(r.out, "given-up") || strings.Contains(r.errors, "nobody leads") {
			t.Errorf("exit code %d: %s%s", r.code, r.out, r.errors)
		}
		if r := w.run("status", "given-up"); !strings.Contains(r.errors, "warning: given-up: nobody leads") {
			t.Errorf("of one lock it says %s", r.errors)
		}
		for line, code := range map[string]int{"status plain none": exitError, "status plain op -A": exitUsage, "status plain op --legacy-name x": exitUsage} {
			if r := w.run(strings.Fields(line)...); r.code != code {
				t.Errorf("%s: exit code %d: %s", line, r.code, r.errors)
			}
		}
	})
}

// TestADryRunOfAHandoverChecksEverythingAndChangesNothing.
func TestADryRunOfAHandoverChecksEverythingAndChangesNothing(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		w.trio("op")
		for args, want := range map[string]string{
			"":             "lock op could go from op-za_1 (za) to the candidate that comes first (dry run)\n",
			"--to-zone zb": "lock op could go from op-za_1 (za) to a candidate in zone zb (dry run)\n",
			"--to op-zc_1": "lock op could go from op-za_1 (za) to op-zc_1 (dry run)\n",
			"--to-zone zx": "is in zone zx",
		} {
			r := w.run(append([]string{"handover", "op", "--dry-run"}, strings.Fields(args)...)...)
			if code := map[bool]int{true: exitRefused}[args == "--to-zone zx"]; r.code != code || !strings.Contains(r.out+r.errors, want) {
				t.Errorf("%s: exit code %d, %s%s", args, r.code, r.out, r.errors)
			}
		}
		time.Sleep(5 * time.Second)
		if asked := w.annotations("op")[record.AnnotationRequest]; asked != nil || w.leader("op") != "op-za_1" {
			t.Errorf("%s leads, and is asked %v", w.leader("op"), asked)
		}
	})
}

// TestWhateverMovesLeadersSaysSoToPrograms, with what status says of a leader.
func TestWhateverMovesLeadersSaysSoToPrograms(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		w.trio("op")
		for _, tc := range []struct{ line, result, to string }{
			{"handover op --to op-zb_1 --dry-run", "would be asked", ""},
			{"handover op --to op-zb_1", "moved", "op-zb_1"},
			{"handover op --to op-zb_1", "unchanged", "op-zb_1"},
			{"handover op --to op-za_1 --wait=false", "asked", ""},
			{"evacuate za --dry-run", "would move", ""},
			{"evacuate za", "moved", "*"},
			{"restore za --dry-run", "would be restored", ""},
			{"restore za", "restored", ""},
		} {
			r := w.run(append(strings.Fields(tc.line), "-o", "json")...)
			var got LockMove
			var list LockMoveList
			err := json.Unmarshal([]byte(r.out), &got)
			if !strings.HasPrefix(tc.line, "handover") {
				if err = json.Unmarshal([]byte(r.out), &list); len(list.Items) == 1 {
					got = list.Items[0]
				}
			}
			to := ""
			if got.To != nil {
				to = got.To.Identity
			}
			if err != nil || r.code != exitOK || got.Kind != "LockMove" || got.Name != "op" || got.From == nil || got.Result != tc.result || to != tc.to && (tc.to != "*" || to == "") {
				t.Errorf("%s: exit code %d, %v: %s%s", tc.line, r.code, err, r.out, r.errors)
			}
			time.Sleep(3 * time.Second)
		}
		if r := w.run("handover", "op", "-o", "table"); r.code != exitUsage {
			t.Errorf("exit code %d: %s", r.code, r.errors)
		}
	})
}

// TestWhoInterruptsACommandIsToldWhatItHasChanged, and while it waits, what for.
func TestWhoInterruptsACommandIsToldWhatItHasChanged(t *testing.T) {
	for name, tc := range map[string]struct{ line, waits, told string }{
		"a handover": {
			"handover op", "waiting up to 1m0s for op-za_1 to hand lock op over\n",
			"interrupted: the leader was asked, and may hand over yet; the request was taken back\n",
		},
		"an evacuation": {
			"evacuate za", "waiting up to 1m0s for 1 leader to leave zone za\n",
			"interrupted: the locks are marked, and leaders go on leaving zone za: 'kubectl zonelect restore za' ends that\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				w.announce("op", "op-za", "za", "")
				w.announce("op", "op-zb", "zb", "")
				w.putLease(newLease("op", "op-za_1", "za", phased(record.PhaseDual, 1)))
				w.asks = true
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				var out, errOut buffer
				var code int
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					code = w.start(ctx, &out, &errOut, strings.Fields(tc.line)...)
				}()
				time.Sleep(2 * time.Second)
				stop()
				synctest.Wait()
				select {
				case <-ended:
				default:
					t.Fatal("it goes on")
				}
				if said := errOut.String(); code != exitInterrupted || !strings.Contains(said, tc.waits) || !strings.HasSuffix(said, tc.told) {
					t.Errorf("exit code %d, %s", code, said)
				}
				if asked := w.annotations("op")[record.AnnotationRequest]; asked != nil {
					t.Errorf("the request stays: %v", asked)
				}
			})
		})
	}
}
