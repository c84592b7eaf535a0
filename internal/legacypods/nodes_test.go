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

// TestAPodOfASilentNodeCountsAsGoneAfterTheGraceOnly, which runs from the candidate's own first sight: the
// time before it is unknown.
func TestAPodOfASilentNodeCountsAsGoneAfterTheGraceOnly(t *testing.T) {
	silent(t, func(w *world, c *Counter) {
		time.Sleep(time.Hour)
		w.counts(c, 0, standing)
		if got := w.counts(c, 59*time.Second, standing); got.Note != "" {
			t.Errorf("it says %q", got.Note)
		}
		if got := w.counts(c, time.Second, presumed); got.Presumed[0].Verdict.State != Unreachable {
			t.Errorf("it is %v", got.Presumed[0].Verdict)
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
		w.counts(c, 0, standing)
	})
}

func TestAHeartbeatEndsTheSilence(t *testing.T) {
	silent(t, func(w *world, c *Counter) {
		w.takeFor(c, 50*time.Second)
		w.pulse("n1")
		w.counts(c, 59*time.Second, standing)
		w.counts(c, 2*time.Second, presumed)
		w.beat("n1")
		w.counts(c, time.Second, standing)
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
		"the pods are not read":     fail("list", "/pods"),
	} {
		t.Run(name, func(t *testing.T) {
			silent(t, func(w *world, c *Counter) {
				w.takeFor(c, 50*time.Second)
				happens(w, c)
				w.counts(c, 59*time.Second, standing)
				w.counts(c, 2*time.Second, presumed)
			})
		})
	}
}

// TestWhereMostNodesAreSilentTheRuleDoesNotApply: then the cause is not the node.
func TestWhereMostNodesAreSilentTheRuleDoesNotApply(t *testing.T) {
	for name, f := range map[string]func(w *world, c *Counter){
		"most from the beginning": func(w *world, c *Counter) {
			w.silence("n2", "n3")
			if got := w.counts(c, 10*time.Minute, standing); !strings.Contains(got.Note, "of 4 nodes only 1") {
				w.t.Errorf("it says %q", got.Note)
			}
			w.beat("n2") // half of them
			w.counts(c, 20*time.Second, presumed)
		},
		"most since they were last listed": func(w *world, _ *Counter) {
			c := w.legacyPods(GraceLeast)
			w.takeFor(c, 10*time.Second) // after a third of the grace the heartbeats are listed
			w.beat("n1")
			w.takeFor(c, 30*time.Second)
			w.silence("n1", "n2", "n3", "n4")
			w.counts(c, 25*time.Second, standing)
		},
		"some are new": func(w *world, c *Counter) {
			w.takeFor(c, 58*time.Second)
			for _, name := range []string{"m1", "m2", "m3"} {
				w.pulse(name)
			}
			time.Sleep(4 * time.Second) // until they are listed
			w.counts(c, 0, standing)
		},
	} {
		t.Run(name, func(t *testing.T) { silent(t, f) })
	}
}

func TestWhereHeartbeatsMayNotBeReadTheRuleDoesNotApply(t *testing.T) {
	for verb, says := range map[string]string{
		"get":  `needs verb "get" on leases.coordination.k8s.io in namespace "kube-node-lease"`,
		"list": `needs verb "list" on leases.coordination.k8s.io in namespace "kube-node-lease"`,
	} {
		t.Run(verb, func(t *testing.T) {
			silent(t, func(w *world, c *Counter) {
				w.refuse = refusing(403, verb, "/kube-node-lease/")
				if got := w.counts(c, 10*time.Minute, standing); !strings.Contains(got.Note, says) {
					t.Errorf("it says %q", got.Note)
				}
			})
		})
	}
}

func TestWithoutGraceNothingIsPresumed(t *testing.T) {
	silent(t, func(w *world, _ *Counter) {
		if got := w.counts(w.legacyPods(-1), 10*time.Minute, standing); got.Note != "" {
			t.Errorf("it says %q", got.Note)
		}
	})
}

func TestANodeWithoutHeartbeatsIsNotSilent(t *testing.T) {
	silent(t, func(w *world, c *Counter) {
		w.takeFor(c, 10*time.Second)
		w.Delete(heartsPath + "n1")
		w.counts(c, 10*time.Minute, standing)
	})
}

// TestTheEndOfHeartbeatsIsNone: a node was removed, and the pod collector writes Failed.
func TestTheEndOfHeartbeatsIsNone(t *testing.T) {
	silent(t, func(w *world, c *Counter) {
		w.take(c)
		w.Delete(heartsPath + "n1")
		w.pod("old", "n1", phase(corev1.PodFailed, ""), containers(ended))
		w.counts(c, 30*time.Second, standing)
	})
}

// TestAFinishedPodCountsOnceItsKubeletWasSeenAlive, and after its grace period if the
// kubelet does not say what its containers do.
func TestAFinishedPodCountsOnceItsKubeletWasSeenAlive(t *testing.T) {
	silent(t, func(w *world, c *Counter) {
		w.pod("old", "n2", phase(corev1.PodFailed, "Evicted"), containers(ended))
		w.counts(c, 0, standing) // no heartbeat was seen yet
		w.counts(c, heartbeat, "[] []")
		w.pod("old", "n2", phase(corev1.PodFailed, "Evicted"), containers())
		w.pod("older", "n2", phase(corev1.PodFailed, "Evicted"), containers())
		w.counts(c, 30*time.Second, "[older] []")
		w.counts(c, 11*time.Second, "[] []")
	})
}
