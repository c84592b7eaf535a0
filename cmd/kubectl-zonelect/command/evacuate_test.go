// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/record"
)

// operators makes locks with candidates: two led from za, one from zb.
func (w *world) operators() {
	for _, lock := range []string{"alpha", "beta"} {
		w.trio(lock)
	}
	w.campaign("gamma", "gamma-zb", "zb")
	w.campaign("gamma", "gamma-za", "za")
	time.Sleep(3 * time.Second)
}

// before makes see see every request before it is served, while candidates run.
func (w *world) before(see func(verb, path string) (int, apitest.Object)) {
	w.server.Mu.Lock()
	defer w.server.Mu.Unlock()
	w.server.Before = see
}

func (w *world) evacuated(lock string) any {
	return w.annotations(lock)[record.AnnotationEvacuated]
}

func TestAZoneIsEvacuatedAndRestored(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		w.operators()
		golden(t, "evacuate-dry-run", w.run("evacuate", "za", "--dry-run"))
		if got := w.evacuated("alpha"); got != nil {
			t.Errorf("a dry run says %v", got)
		}
		asked := time.Now()
		r := w.run("evacuate", "za", "--until", "2h")
		if took := time.Since(asked); took > time.Second {
			t.Errorf("it took %v", took)
		}
		for _, line := range []string{"lock alpha went from alpha-za_1 (za) to alpha-zb_1 (zb)\n", "lock beta went from beta-za_1 (za) to beta-zb_1 (zb)\n"} {
			if !strings.Contains(r.errors, line) {
				t.Errorf("%q does not say %q", r.errors, line)
			}
		}
		golden(t, "evacuate", result{r.code, r.out, ""})
		golden(t, "evacuate-status", w.run("status", "alpha"))
		for _, lock := range []string{"alpha", "beta", "gamma"} {
			if got := w.evacuated(lock); got != "za=2000-01-01T02:00:09Z" {
				t.Errorf("%s: evacuated is %v", lock, got)
			}
		}

		golden(t, "evacuate-second", w.run("evacuate", "zc"))
		if got := w.evacuated("alpha"); got != "za=2000-01-01T02:00:09Z,zc" {
			t.Errorf("evacuated is %v", got)
		}
		golden(t, "restore-dry-run", w.run("restore", "za", "--dry-run"))
		golden(t, "restore", w.run("restore", "za"))
		golden(t, "restore-again", w.run("restore", "za"))
		golden(t, "restore-unknown", w.run("restore", "zx"))
		time.Sleep(time.Minute)
		if got := w.leader("alpha") + " " + w.leader("beta"); got != "alpha-zb_1 beta-zb_1" {
			t.Errorf("afterwards lead %s", got)
		}
		w.run("restore", "zc")
		if got := w.evacuated("alpha"); got != nil {
			t.Errorf("evacuated is %v", got)
		}
	})
}

func TestALeaderWithoutCandidatesElsewhereStaysUntilThereIsOne(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		w.operators()
		w.campaign("single", "single-za", "za")
		time.Sleep(3 * time.Second)
		asked := time.Now()
		r := w.run("evacuate", "za")
		if took := time.Since(asked); took > time.Second {
			t.Errorf("it took %v", took)
		}
		golden(t, "evacuate-stays", result{r.code, r.out, r.errors[strings.LastIndex(r.errors, "error:"):]})
		// Another request, with nothing else to do, is refused for its own reason.
		golden(t, "evacuate-stays-again", w.run("evacuate", "za"))
		w.campaign("single", "single-zb", "zb")
		time.Sleep(3 * time.Second)
		if got := w.leader("single"); got != "single-zb_1" {
			t.Errorf("%s leads", got)
		}
	})
}

func TestAnEvacuationThatMakesNoSenseIsRefusedAndChangesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		args string
		fill func(w *world)
	}{
		"evacuate-unknown":      {"zx", nil},
		"evacuate-no-namespace": {"za -n other", nil},
		"evacuate-every-zone": {"zb", func(w *world) {
			for _, lock := range []string{"alpha", "beta", "gamma"} {
				w.annotate(lock, record.AnnotationEvacuated, "za,zc")
				time.Sleep(time.Second)
			}
		}},
		"evacuate-only-zone": {"za", func(w *world) {
			for _, lock := range []string{"alpha", "beta", "gamma"} { // no candidate announces itself
				w.server.Mu.Lock()
				paths := slices.Collect(maps.Keys(w.server.Objects))
				w.server.Mu.Unlock()
				for _, path := range paths {
					if strings.Contains(path, "/"+lock+".") {
						w.server.Delete(path)
					}
				}
			}
			w.server.Delete("/api/v1/nodes/node-zb")
			w.server.Delete("/api/v1/nodes/node-zc")
			w.putLease(newLease("gamma", "gamma-za_1", "za"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				w.operators()
				if tc.fill != nil {
					tc.fill(w)
				}
				before, leader := w.evacuated("gamma"), w.leader("gamma")
				r := w.run(append([]string{"evacuate"}, strings.Fields(tc.args)...)...)
				golden(t, name, r)
				time.Sleep(10 * time.Second)
				if got := w.evacuated("gamma"); r.code < exitUsage || got != before || w.leader("gamma") != leader {
					t.Errorf("exit code %d, %s leads, and evacuated is %v", r.code, w.leader("gamma"), got)
				}
			})
		})
	}
}

func TestAZoneWithNodesAloneCanBeEvacuated(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		w.hosts("other", "zd")
		w.operators()
		golden(t, "evacuate-nodes", w.run("evacuate", "zd"))
		if got := w.evacuated("gamma"); got != "zd" {
			t.Errorf("evacuated is %v", got)
		}
	})
}

func TestALockThatCannotBeChangedIsNamed(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		w.operators()
		w.before(func(verb, path string) (int, apitest.Object) {
			if verb == "update" && strings.HasSuffix(path, "/gamma") {
				return apitest.Forbidden(verb, path)
			}
			return 0, nil
		})
		r := w.run("evacuate", "za")
		golden(t, "evacuate-denied", result{r.code, r.out, r.errors[strings.LastIndex(r.errors, "error:"):]})
	})
}

func TestAnEvacuationIsNotedAlsoWhereTheLeaderRenewsMeanwhile(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		w.operators()
		races := 0
		w.before(func(verb, path string) (int, apitest.Object) {
			if verb == "update" && strings.HasSuffix(path, "/gamma") && races < 3 {
				races++
				return http.StatusConflict, apitest.Status(http.StatusConflict, "Conflict", "the object has been modified", "leases", "gamma")
			}
			return 0, nil
		})
		if r := w.run("evacuate", "za"); r.code != exitOK || races < 3 {
			t.Errorf("exit code %d after %d conflicts: %s", r.code, races, r.errors)
		}
		synctest.Wait()
		if got := w.evacuated("gamma"); got != "za" {
			t.Errorf("evacuated is %v", got)
		}
	})
}

// TestLocksOfCandidatesThatDoNotLeadAreMarkedToo: they may lead, once client-go's leader is
// gone.
func TestLocksOfCandidatesThatDoNotLeadAreMarkedToo(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		w.putLease(newLease("op", "client-go", "", func(l *coordinationv1.Lease) { l.Annotations = nil }))
		w.announce("op", "op-a", "za", "")
		w.announce("op", "op-b", "zb", "")
		w.putLease(newLease("theirs", "client-go", "", func(l *coordinationv1.Lease) { l.Annotations = nil }))
		golden(t, "evacuate-client-go", w.run("evacuate", "za"))
	})
}
