// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/zone"
)

// threeCandidates announces one in each zone.
func (w *world) threeCandidates() {
	for _, z := range []string{"a", "b", "c"} {
		w.announce("op", "op-"+z, "z"+z, "", inModeLease)
	}
}

// TestStatusIsTrueWhateverTheLockLooksLike: who leads, or since when nobody does, the last
// failover, who is next, and how long the lease lasts.
func TestStatusIsTrueWhateverTheLockLooksLike(t *testing.T) {
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	for name, tc := range map[string]struct {
		lease func() *coordinationv1.Lease
		args  string
		more  func(*world)
	}{
		"held":               {lease: func() *coordinationv1.Lease { return led() }},
		"released":           {lease: func() *coordinationv1.Lease { return led(releasedBy(time.Minute)) }},
		"stale":              {lease: func() *coordinationv1.Lease { return led(renewed(time.Hour)) }},
		"stale-at-once":      {lease: func() *coordinationv1.Lease { return led(renewed(time.Hour)) }, args: "--observe=0"},
		"expired":            {lease: func() *coordinationv1.Lease { return led(renewed(time.Hour)) }, args: "--observe=15s"},
		"almost-run-out":     {lease: func() *coordinationv1.Lease { return led(renewed(14500 * time.Millisecond)) }},
		"clock-ahead":        {lease: func() *coordinationv1.Lease { return led(renewed(-5 * time.Second)) }},
		"clock-far-ahead":    {lease: func() *coordinationv1.Lease { return led(renewed(-time.Hour)) }},
		"clock-whole-second": {lease: func() *coordinationv1.Lease { return led(renewed(-time.Second)) }},
		"cleared": {lease: func() *coordinationv1.Lease {
			return led(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("") })
		}},
		"released-by-client-go": {lease: func() *coordinationv1.Lease {
			return newLease("op", "", "", releasedBy(time.Minute), func(l *coordinationv1.Lease) { l.Annotations = map[string]string{} })
		}},
		"garbage": {lease: func() *coordinationv1.Lease {
			return led(func(l *coordinationv1.Lease) {
				l.Annotations[record.AnnotationPrevious] = `{"holder":"\u001b[2J","cause":"\u001b[2J","until":"2000-01-01T00:00:00Z","new":[]}`
				l.Annotations[record.AnnotationEvacuated] = "=="
				l.Annotations[record.AnnotationToken] = "NaN"
			})
		}},
		"garbage-alone": {lease: func() *coordinationv1.Lease {
			return led(func(l *coordinationv1.Lease) { l.Annotations[record.AnnotationPrevious] = strings.Repeat("x", 5000) })
		}},
		"empty-spec": {lease: func() *coordinationv1.Lease {
			return led(func(l *coordinationv1.Lease) { l.Spec = coordinationv1.LeaseSpec{HolderIdentity: ptr.To("op-a_1")} })
		}},
		"slow-handover": {lease: func() *coordinationv1.Lease { return led(after("op-b_1", "released", time.Second)) }},
		"handover":      {lease: func() *coordinationv1.Lease { return led(after("op-b_1", "released", 999*time.Millisecond)) }},
		"handover-unseen": {lease: func() *coordinationv1.Lease {
			return led(func(l *coordinationv1.Lease) {
				l.Annotations[record.AnnotationPrevious] = `{"holder":"op-b_1","cause":"released"}`
			})
		}},
		"failover-unseen": {lease: func() *coordinationv1.Lease {
			return led(func(l *coordinationv1.Lease) {
				l.Annotations[record.AnnotationPrevious] = `{"cause":"of-a-later-version"}`
			})
		}},
		"failover-in-the-future": {lease: func() *coordinationv1.Lease {
			return led(func(l *coordinationv1.Lease) { l.Spec.AcquireTime.Time = ago(-time.Hour) }, after("op-b_1", "died", 0))
		}},
		"taken-by-client-go": {lease: func() *coordinationv1.Lease {
			return led(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("client-go") })
		}},
		"next-is-dead": {lease: func() *coordinationv1.Lease { return led() }, more: func(w *world) { w.deletePod("op-c") }},
		"next-has-no-node": {lease: func() *coordinationv1.Lease { return led() }, more: func(w *world) {
			w.hosts("op-c", "zc", func(_ *corev1.Pod, n *corev1.Node) { n.Status.Conditions = nil })
		}},
		"next-is-nobody": {lease: func() *coordinationv1.Lease { return led() }, more: func(w *world) {
			w.deletePod("op-b")
			w.deletePod("op-c")
		}},
		"next-is-unknown": {lease: func() *coordinationv1.Lease { return led() }, more: func(w *world) {
			w.announce("op", "op-b", "zb", "", inModeLease, func(o *presence.Object) { o.TakeoverDelay = "" })
		}},
		"next-was-just-lost": {lease: func() *coordinationv1.Lease {
			return led(func(l *coordinationv1.Lease) { l.Spec.AcquireTime.Time = ago(30 * time.Second) }, after("op-c_1", "expired", 15*time.Second))
		}},
		"next-was-lost-before": {lease: func() *coordinationv1.Lease {
			return led(func(l *coordinationv1.Lease) { l.Spec.AcquireTime.Time = ago(time.Minute) }, after("op-c_1", "expired", 15*time.Second))
		}},
		"next-campaigns-in-phase-dual": {lease: func() *coordinationv1.Lease { return led(phased(record.PhaseDual, 1)) }, more: func(w *world) {
			w.announce("op", "op-b", "zb", "") // in mode auto; the others are in mode lease
		}},
		"legacy-leads-instead": {lease: func() *coordinationv1.Lease { return led(releasedBy(time.Minute), phased(record.PhaseDual, 1)) }, more: func(w *world) {
			w.putConfigMap("op", nil, byPod("old-0"))
		}},
	} {
		for _, what := range []string{"op", ""} {
			t.Run(name+" "+what, func(t *testing.T) {
				inABubble(t, func(t *testing.T, w *world) {
					w.threeCandidates()
					w.putLease(tc.lease())
					if tc.more != nil {
						tc.more(w)
					}
					file := "is-" + name
					if what == "" {
						file += "-list"
					}
					golden(t, file, w.run(strings.Fields("status "+what+" "+tc.args)...))
				})
			})
		}
	}
}

// TestWhoIsNextTakesOver: the candidates order themselves. Status knows their order only if it
// does as they do.
func TestWhoIsNextTakesOver(t *testing.T) {
	type candidate struct {
		pod, zone string
		preferred []string
	}
	for name, tc := range map[string]struct {
		followers []candidate
		happens   func(*world)
		next      string // empty if any will do; "-" if it is not known
	}{
		"by hash":             {followers: []candidate{{"op-1", "zb", nil}, {"op-2", "zc", nil}, {"op-3", "zd", nil}}},
		"not the silent zone": {followers: []candidate{{"op-1", "za", nil}, {"op-2", "zc", nil}}, next: "op-2_1"},
		"the preferred zone":  {followers: []candidate{{"op-1", "zb", []string{"zc"}}, {"op-2", "zc", []string{"zc"}}, {"op-3", "zd", []string{"zc"}}}, next: "op-2_1"},
		"they disagree":       {followers: []candidate{{"op-1", "zb", []string{"zb"}}, {"op-2", "zc", []string{"zc"}}}, next: unknown},
		"not the unhealthy one": {followers: []candidate{{"op-1", "zb", []string{"zb"}}, {"op-2", "zc", []string{"zb"}}}, next: "op-2_1",
			happens: func(w *world) { w.sick = map[string]string{"op-1_1": "no disk"} }},
		"not the evacuated zone": {followers: []candidate{{"op-1", "zb", []string{"zb"}}, {"op-2", "zc", []string{"zb"}}}, next: "op-2_1",
			happens: func(w *world) { w.annotate("op", record.AnnotationEvacuated, "zb") }},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				kill := w.competes("op", "op-0", "za", presence.ByZones(nil), zone.Order{}.TakeoverDelay)
				time.Sleep(5 * time.Second)
				if tc.happens != nil {
					tc.happens(w)
				}
				for _, c := range tc.followers {
					w.competes("op", c.pod, c.zone, presence.ByZones(c.preferred), zone.Order{Preferred: c.preferred}.TakeoverDelay)
				}
				time.Sleep(20 * time.Second)
				said := w.run("status", "op", "-o", "jsonpath={.status.next.identity}").out
				kill()
				for w.leader("op") == "op-0_1" {
					time.Sleep(100 * time.Millisecond)
				}
				if tc.next == unknown && said == "" {
					return
				}
				if leads := w.leader("op"); leads != said || tc.next != "" && leads != tc.next {
					t.Errorf("%s leads, and status said that %s is next", leads, said)
				}
				var got inspect.Failover
				w.read(t, "status op", ".status.lastFailover", &got)
				if got.From != "op-0_1" || got.To != said || got.Cause != string(status.CauseExpired) || got.NobodyLedMilliseconds == nil {
					t.Errorf("the last failover is %+v", got)
				}
			})
		})
	}
}

// TestTheLeaseLeftIsThatOfTheLastRenewalSeen, whatever the clocks say, once a renewal was seen.
func TestTheLeaseLeftIsThatOfTheLastRenewalSeen(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		w.putLease(newLease("op", "op-a_1", "za", renewed(time.Hour))) // the clocks differ by an hour
		beat := time.AfterFunc(2*time.Second, func() {
			w.server.Change(leasesPath+"op", func(o apitest.Object) { o["spec"].(apitest.Object)["leaseTransitions"] = 5 })
		})
		defer beat.Stop()
		if r := w.run("status", "op", "-o", "jsonpath={.status.state} {.status.leader.leaseLeftMilliseconds} {.status.leader.leaseLeftBy}"); r.out != "held 15000 watch" {
			t.Errorf("printed %s%s", r.out, r.errors)
		}
	})
}

// TestASilentConnectionIsNoSilentLeader: while nothing comes from the API server, nobody knows
// whether the leader renews.
func TestASilentConnectionIsNoSilentLeader(t *testing.T) {
	for _, width := range []int{0, 200} {
		inABubble(t, func(t *testing.T, w *world) {
			w.width, w.vars = width, map[string]string{"TERM": "xterm"}
			w.threeCandidates()
			w.putLease(led())
			out, errOut, stop := w.watches("status", "op", "-w")
			beat := func(d time.Duration) {
				for range int(d / (2 * time.Second)) {
					time.Sleep(2 * time.Second)
					w.renew("op")
				}
				synctest.Wait()
			}
			beat(10 * time.Second)
			w.deaf.Store(true)
			beat(time.Minute)
			said := out.String() + errOut.String()
			if strings.Contains(said, "nobody") || !strings.Contains(said, "deadline exceeded") {
				t.Errorf("after a minute of silence it says\n%s", said)
			}
			w.deaf.Store(false)
			w.cut()
			w.putLease(newLease("op", "op-b_1", "zb"))
			beat(20 * time.Second)
			if !strings.Contains(out.String(), "op-b_1") {
				t.Errorf("it does not go on:\n%s%s", out, errOut)
			}
			stop()
		})
	}
}

// watches runs a command in the background until stop.
func (w *world) watches(args ...string) (out, errOut *buffer, stop func() int) {
	out, errOut = &buffer{}, &buffer{}
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan int)
	go func() { ended <- w.start(ctx, out, errOut, args...) }()
	return out, errOut, func() int { cancel(); return <-ended }
}

// TestRightsThatAreMissingCostOnlyWhatTheyAreFor.
func TestRightsThatAreMissingCostOnlyWhatTheyAreFor(t *testing.T) {
	for _, denied := range []string{"pods", "nodes", "configmaps"} {
		for _, args := range []string{"status", "status op", "status -w", "status op -w"} {
			t.Run(denied+" "+args, func(t *testing.T) {
				inABubble(t, func(t *testing.T, w *world) {
					for _, z := range []string{"a", "b", "c"} {
						w.announce("op", "op-"+z, "z"+z, "") // in mode auto
					}
					w.putLease(led(phased(record.PhaseDual, 1)))
					asked := 0
					w.server.Before = func(verb, path string) (int, apitest.Object) {
						if strings.Contains(path, "/"+denied+"/") {
							asked++
							return apitest.Forbidden(verb, path)
						}
						return 0, nil
					}
					r := w.runFor(10*time.Second, strings.Fields(args)...)
					if r.code != exitOK || !strings.Contains(r.out, "op-a_1 ") || !strings.Contains(r.out, " op-c_1 (zc) ") {
						t.Errorf("exit code %d: %s%s", r.code, r.out, r.errors)
					}
					if !strings.Contains(r.errors, "not known") || !strings.Contains(r.errors, denied) {
						t.Errorf("it does not say what is missing: %s", r.errors)
					}
					if denied != "configmaps" && asked > 1 {
						t.Errorf("it asked %d times", asked)
					}
				})
			})
		}
	}
}

// TestManyLocksCostOneRequestForEachPodAndNode, not for each lock.
func TestManyLocksCostOneRequestForEachPodAndNode(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		for _, z := range []string{"a", "b", "c"} {
			w.announce("many", "op-"+z, "z"+z, "", inModeLease)
		}
		for i := range 1000 {
			w.putLease(newLease(fmt.Sprintf("shard-%d", i), "op-a_1", "za", func(l *coordinationv1.Lease) { l.Annotations[record.AnnotationShared] = "many" }))
		}
		before := w.asked.Load()
		r := w.run("status", "--no-headers")
		if lines := strings.Count(r.out, "\n"); lines != 1000 || strings.Count(r.out, " op-b_1 (zb) ")+strings.Count(r.out, " op-c_1 (zc) ") != 1000 {
			t.Errorf("it printed %d lines", lines)
		}
		if asked := w.asked.Load() - before; asked > 1+2*2 {
			t.Errorf("it cost %d requests", asked)
		}
	})
}
