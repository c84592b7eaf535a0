// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/zonelect/zonelect/election/status"
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
	for name, tc := range map[string]struct {
		lease func() *coordinationv1.Lease
		args  string
		more  func(*world)
	}{
		"held":     {lease: func() *coordinationv1.Lease { return led() }},
		"released": {lease: func() *coordinationv1.Lease { return led(releasedBy(time.Minute)) }},
		"cleared": {lease: func() *coordinationv1.Lease {
			return led(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("") })
		}},
		"slow-handover": {lease: func() *coordinationv1.Lease { return led(after("op-b_1", "released", time.Second)) }},
		"handover":      {lease: func() *coordinationv1.Lease { return led(after("op-b_1", "released", 999*time.Millisecond)) }},
		"next-is-dead":  {lease: func() *coordinationv1.Lease { return led() }, more: func(w *world) { w.deletePod("op-c") }},
		"next-is-nobody": {lease: func() *coordinationv1.Lease { return led() }, more: func(w *world) {
			w.deletePod("op-b")
			w.deletePod("op-c")
		}},
		"next-campaigns-in-phase-dual": {lease: func() *coordinationv1.Lease { return led(phased(record.PhaseDual, 1)) }, more: func(w *world) {
			w.announce("op", "op-b", "zb", "") // in mode auto; the others are in mode lease
		}},
		"legacy-leads-instead": {lease: func() *coordinationv1.Lease { return led(releasedBy(time.Minute), phased(record.PhaseDual, 1)) }, more: func(w *world) {
			w.putConfigMap("op", nil, byPod("old-0"))
		}},
	} {
		for _, what := range map[bool][]string{true: {"op", ""}, false: {"op"}}[name == "held"] {
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
