// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package legacypods

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// silent runs f in a bubble of virtual time, in which a count with M11's default grace
// has seen pod "old" on node n1, whose heartbeats have just stopped. Nodes n2 to n4 beat.
func silent(t *testing.T, f func(w *world, c *Counter)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.beat("n1", "n2", "n3", "n4")
		w.pod("old", "n1")
		time.Sleep(3 * time.Second)
		w.silence("n1")
		f(w, w.legacyPods(0))
	})
}

const standing, presumed = "[old] []", "[] [old]"

func TestAPodOfASilentNodeCountsAsGoneAfterTheGraceOnly(t *testing.T) {
	silent(t, func(w *world, c *Counter) {
		if got := text(w.take(c)); got != standing {
			t.Errorf("at first sight: %s", got)
		}
		if got := w.takeFor(c, 59*time.Second); text(got) != standing || got.Note != "" {
			t.Errorf("after 59 s: %s, %q", text(got), got.Note)
		}
		got := w.takeFor(c, time.Second)
		if text(got) != presumed || got.Presumed[0].Verdict.State != Unreachable {
			t.Errorf("after 60 s: %s", text(got))
		}
	})
}

// TestTheSilenceRunsFromTheOwnFirstSight, because the time before it is unknown.
func TestTheSilenceRunsFromTheOwnFirstSight(t *testing.T) {
	silent(t, func(w *world, c *Counter) {
		time.Sleep(time.Hour)
		w.take(c)
		if got := text(w.takeFor(c, 59*time.Second)); got != standing {
			t.Errorf("after 59 s: %s", got)
		}
		if got := text(w.takeFor(c, time.Second)); got != presumed {
			t.Errorf("after 60 s: %s", got)
		}
	})
}

// lateHearts delays its answers to reads of heartbeats after it has read them.
type lateHearts struct {
	http.Handler
	by *time.Duration
}

func (l lateHearts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.Handler.ServeHTTP(w, r)
	if strings.HasPrefix(r.URL.Path, heartsPath) {
		time.Sleep(*l.by)
	}
}

// TestM11WhileAnAnswerIsOnItsWayNoSilenceIsHeard: the node may beat meanwhile.
func TestM11WhileAnAnswerIsOnItsWayNoSilenceIsHeard(t *testing.T) {
	silent(t, func(w *world, _ *Counter) {
		var by time.Duration
		c := w.legacyPods(0, func(c *Config) {
			c.Coordination = apitest.Wire(t, lateHearts{w, &by}, coordinationv1.SchemeGroupVersion)
		})
		w.take(c)
		w.takeFor(c, 55*time.Second)
		by = 5 * time.Second
		time.AfterFunc(2*time.Second, func() { w.pulse("n1") })
		time.Sleep(time.Second)
		if got := text(w.take(c)); got != standing {
			t.Errorf("after 56 s of silence: %s", got)
		}
	})
}

func TestAHeartbeatEndsTheSilence(t *testing.T) {
	silent(t, func(w *world, c *Counter) {
		w.takeFor(c, 50*time.Second)
		w.pulse("n1")
		if got := text(w.takeFor(c, 59*time.Second)); got != standing {
			t.Errorf("59 s after the heartbeat: %s", got)
		}
		if got := text(w.takeFor(c, 2*time.Second)); got != presumed {
			t.Errorf("61 s after it: %s", got)
		}
		w.beat("n1")
		if got := text(w.takeFor(c, time.Second)); got != standing {
			t.Errorf("now that it beats again: %s", got)
		}
	})
}

// TestTheSilenceStartsAnewAfterEveryGap: if this candidate cannot reach the API, the node
// may not either.
func TestTheSilenceStartsAnewAfterEveryGap(t *testing.T) {
	fail := func(verb, in string) func(*world, *Counter) {
		return func(w *world, c *Counter) {
			time.Sleep(time.Second)
			w.refuse = refusing(500, verb, in)
			if _, err := c.Count(w.t.Context(), ownerref.Owner{}, nil); err == nil {
				w.t.Errorf("%s of %s failed unnoticed", verb, in)
			}
			w.refuse = nil
		}
	}
	for name, happens := range map[string]func(*world, *Counter){
		"no count for eleven seconds": func(*world, *Counter) { time.Sleep(11 * time.Second) },
		"the heartbeat may not be read for a moment": func(w *world, c *Counter) {
			w.refuse = refusing(403, "get", "/kube-node-lease/")
			time.Sleep(time.Second)
			w.take(c)
			w.refuse = nil
		},
		"the heartbeat is not read": fail("get", "/kube-node-lease/"),
		"the node is not read":      fail("get", "/nodes/"),
		"the pods are not read":     fail("list", "/pods"),
	} {
		t.Run(name, func(t *testing.T) {
			silent(t, func(w *world, c *Counter) {
				w.takeFor(c, 50*time.Second)
				happens(w, c)
				if got := text(w.takeFor(c, 59*time.Second)); got != standing {
					t.Errorf("59 s after the gap: %s", got)
				}
				if got := text(w.takeFor(c, 2*time.Second)); got != presumed {
					t.Errorf("61 s after it: %s", got)
				}
			})
		})
	}
}

// TestWhereMostNodesAreSilentTheRuleDoesNotApply: then the cause is not the node.
func TestWhereMostNodesAreSilentTheRuleDoesNotApply(t *testing.T) {
	t.Run("most from the beginning", func(t *testing.T) {
		silent(t, func(w *world, c *Counter) {
			w.silence("n2", "n3")
			got := w.takeFor(c, 10*time.Minute)
			if text(got) != standing || !strings.Contains(got.Note, "of 4 nodes only 1") {
				t.Errorf("counted %s, %q", text(got), got.Note)
			}
			w.beat("n2")
			if got := text(w.takeFor(c, 20*time.Second)); got != presumed {
				t.Errorf("now that half of them beat: %s", got)
			}
		})
	})
	t.Run("most since they were last listed", func(t *testing.T) {
		silent(t, func(w *world, _ *Counter) {
			c := w.legacyPods(GraceLeast)
			w.takeFor(c, 10*time.Second) // after a third of the grace the heartbeats are listed
			w.beat("n1")
			w.takeFor(c, 30*time.Second)
			w.silence("n1", "n2", "n3", "n4")
			if got := text(w.takeFor(c, 25*time.Second)); got != standing {
				t.Errorf("counted %s", got)
			}
		})
	})
	t.Run("some are new", func(t *testing.T) {
		silent(t, func(w *world, c *Counter) {
			w.takeFor(c, 58*time.Second)
			for _, name := range []string{"m1", "m2", "m3"} {
				w.pulse(name)
			}
			time.Sleep(4 * time.Second) // until they are listed
			if got := text(w.take(c)); got != standing {
				t.Errorf("three of seven were seen to beat: %s", got)
			}
		})
	})
}

func TestWhereHeartbeatsMayNotBeReadTheRuleDoesNotApply(t *testing.T) {
	for name, tc := range map[string]struct{ verb, says string }{
		"of the node": {"get", `needs verb "get" on leases.coordination.k8s.io in namespace "kube-node-lease"`},
		"of others":   {"list", `needs verb "list" on leases.coordination.k8s.io in namespace "kube-node-lease"`},
	} {
		t.Run(name, func(t *testing.T) {
			silent(t, func(w *world, c *Counter) {
				w.refuse = refusing(403, tc.verb, "/kube-node-lease/")
				got := w.takeFor(c, 10*time.Minute)
				if text(got) != standing || !strings.Contains(got.Note, tc.says) {
					t.Errorf("counted %s, %q", text(got), got.Note)
				}
			})
		})
	}
}

func TestWithoutGraceNothingIsPresumed(t *testing.T) {
	silent(t, func(w *world, _ *Counter) {
		w.node("n1", corev1.ConditionUnknown, corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute})
		if got := w.takeFor(w.legacyPods(-1), 10*time.Minute); text(got) != standing || got.Note != "" {
			t.Errorf("counted %s, %q", text(got), got.Note)
		}
	})
}

func TestANodeOutOfServiceIsBelievedAtOnce(t *testing.T) {
	taint := corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}
	silent(t, func(w *world, c *Counter) {
		w.node("n1", corev1.ConditionUnknown, taint)
		if got := w.take(c); text(got) != presumed || got.Presumed[0].Verdict.State != OutOfService {
			t.Errorf("counted %s", text(got))
		}
	})
	silent(t, func(w *world, c *Counter) {
		w.beat("n1")
		w.node("n1", corev1.ConditionTrue, taint)
		if got := text(w.takeFor(c, 10*time.Minute)); got != standing {
			t.Errorf("declared, but it beats and is Ready: %s", got)
		}
	})
}

func TestANodeWithoutHeartbeatsIsSilentOnlyIfItIsNotReady(t *testing.T) {
	for name, tc := range map[string]struct {
		set  func(*world)
		want string
	}{
		"node gone":            {func(w *world) { w.Delete(nodesPath + "n1") }, presumed},
		"node not ready":       {func(w *world) { w.node("n1", corev1.ConditionUnknown) }, presumed},
		"node ready":           {func(*world) {}, standing},
		"node may not be read": {func(w *world) { w.refuse = refusing(403, "get", "/nodes/") }, standing},
	} {
		t.Run(name, func(t *testing.T) {
			silent(t, func(w *world, c *Counter) {
				w.takeFor(c, 10*time.Second)
				w.Delete(heartsPath + "n1")
				tc.set(w)
				if got := text(w.takeFor(c, 59*time.Second)); got != standing {
					t.Errorf("after 59 s: %s", got)
				}
				if got := text(w.takeFor(c, 3*time.Second)); got != tc.want {
					t.Errorf("after 62 s: %s, want %s", got, tc.want)
				}
			})
		})
	}
}

// TestTheEndOfHeartbeatsIsNone: a node was removed, and the pod collector writes Failed.
func TestTheEndOfHeartbeatsIsNone(t *testing.T) {
	silent(t, func(w *world, c *Counter) {
		w.take(c)
		w.Delete(heartsPath + "n1")
		w.Delete(nodesPath + "n1")
		w.pod("old", "n1", phase(corev1.PodFailed, ""), containers(ended))
		if got := text(w.takeFor(c, 30*time.Second)); got != standing {
			t.Errorf("counted %s", got)
		}
	})
}

// TestAFinishedPodCountsOnceItsKubeletWasSeenAlive, and after its grace period if the
// kubelet does not say what its containers do.
func TestAFinishedPodCountsOnceItsKubeletWasSeenAlive(t *testing.T) {
	silent(t, func(w *world, c *Counter) {
		w.pod("old", "n2", phase(corev1.PodFailed, "Evicted"), containers(ended))
		if got := text(w.take(c)); got != standing {
			t.Errorf("before a heartbeat was seen: %s", got)
		}
		if got := text(w.takeFor(c, heartbeat)); got != "[] []" {
			t.Errorf("after it: %s", got)
		}
		w.pod("old", "n2", phase(corev1.PodFailed, "Evicted"), containers())
		w.pod("older", "n2", phase(corev1.PodFailed, "Evicted"), containers())
		if got := text(w.takeFor(c, 30*time.Second)); got != "[older] []" {
			t.Errorf("30 s after it was first seen: %s", got)
		}
		if got := text(w.takeFor(c, 11*time.Second)); got != "[] []" {
			t.Errorf("41 s after it: %s", got)
		}
	})
}
