// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
)

// astray makes lock op with a leader on a node in za and a candidate in zb. The leader does not know
// its zone.
func (w *world) astray() {
	w.lost = map[string]bool{"op-za_1": true}
	w.campaign("op", "op-za", "za")
	w.campaign("op", "op-zb", "zb")
	time.Sleep(3 * time.Second)
}

// unlabelled puts up a node without a zone.
func unlabelled(_ *corev1.Pod, n *corev1.Node) { n.Labels = nil }

// TestWhereACandidateIsThatDoesNotKnowItItsNodeSays, to every command.
func TestWhereACandidateIsThatDoesNotKnowItItsNodeSays(t *testing.T) {
	for line, want := range map[string]string{
		"status":                        " za:1,zb:1\n",
		"status op":                     "op-za_1 * za ",
		"status op -o yaml":             "zoneByNode: true",
		"doctor op":                     "these candidates do not know their zone: op-za_1\n",
		"migrate plan op":               "held by op-za_1 in zone za\n",
		"handover op --to-zone za":      "lock op is led by op-za_1 (za) already\n",
		"evacuate za --dry-run":         "op op-za_1 (za) <none> would move\n",
		"evacuate za --dry-run -o yaml": "result: would move\n",
		"evacuate zb --dry-run":         "op op-za_1 (za) <none> would be marked\n",
		"restore za":                    "zone za is restored for 0 locks\n",
	} {
		t.Run(line, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				w.astray()
				r := w.run(strings.Fields(line)...)
				if got := squeezed(r.out); !strings.Contains(got, want) {
					t.Errorf("it prints %s%s\nwant %q", r.out, r.errors, want)
				}
			})
		})
	}
}

// squeezed is a text in which one space stands for several.
func squeezed(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n") + "\n"
}

// TestALeaderThatDoesNotKnowItsZoneLeavesIt: no mark on the Lease would tell it.
func TestALeaderThatDoesNotKnowItsZoneLeavesIt(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		w.astray()
		golden(t, "zone-of-the-node-evacuated", w.run("evacuate", "za"))
		if got := w.leader("op"); got != "op-zb_1" {
			t.Errorf("%s leads", got)
		}
	})
}

// TestAnUnknownZoneIsNotElsewhere, however it comes that nobody knows it.
func TestAnUnknownZoneIsNotElsewhere(t *testing.T) {
	for name, hide := range map[string]func(w *world){
		"label":  func(w *world) { w.hosts("op-za", "za", unlabelled) },
		"node":   func(w *world) { w.server.Delete("/api/v1/nodes/node-za") },
		"rights": func(w *world) { w.forbid("get", "/nodes/") },
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				w.astray()
				w.hosts("other", "za2", func(_ *corev1.Pod, n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = "za" })
				hide(w)
				for _, tc := range []struct {
					line, want string
					code       int
				}{
					{"evacuate za --dry-run", "op op-za_1 <none> would stay: its zone is not known\n", exitOK},
					{"evacuate za", "op op-za_1 <none> stays: its zone is not known\n", exitError},
					{"status op", "warning: op: whether op-za_1 leads in an evacuated zone is not known: its zone is not known\n", exitOK},
				} {
					r := w.run(strings.Fields(tc.line)...)
					if got := squeezed(r.out + r.errors); !strings.Contains(got, tc.want) || r.code != tc.code {
						t.Errorf("%s: exit code %d: %s\nwant %q", tc.line, r.code, got, tc.want)
					}
				}
				if got := w.evacuated("op"); got != "za" {
					t.Errorf("the lock is not marked: %v", got)
				}
			})
		})
	}
}

// forbid denies a verb on the paths with a part.
func (w *world) forbid(verb, part string) {
	w.before(func(v, path string) (int, apitest.Object) {
		if v == verb && strings.Contains(path, part) {
			return apitest.Forbidden(v, path)
		}
		return 0, nil
	})
}

// TestASuccessorWhoseZoneIsUnknownIsNotElsewhere: neither in the zone that is asked for, nor outside
// the one to leave.
func TestASuccessorWhoseZoneIsUnknownIsNotElsewhere(t *testing.T) {
	hidden := func(w *world) {
		w.lost = map[string]bool{"op-zb_1": true}
		w.campaign("op", "op-za", "za")
		w.campaign("op", "op-zb", "zb")
		w.hosts("op-zb", "zb", unlabelled)
		time.Sleep(3 * time.Second)
	}
	for name, tc := range map[string]struct {
		fill  func(w *world)
		line  string
		says  string
		code  int
		leads string
	}{
		"not in the zone that is asked for": {
			hidden, "handover op --to-zone zb", "is known to be where it has to be: the zone of op-zb_1 is not known; name one with --to", exitRefused, "op-za_1",
		},
		"not outside": {
			func(w *world) { hidden(w); w.annotate("op", record.AnnotationEvacuated, "zc") },
			"handover op", "the zone of op-zb_1 is not known; name one with --to", exitRefused, "op-za_1",
		},
		"unless it is named": {hidden, "handover op --to op-zb_1", "went from op-za_1 (za) to op-zb_1\n", exitOK, "op-zb_1"},
		"and after those that are": {
			func(w *world) {
				hidden(w)
				w.campaign("op", "op-zd", "zd")
				w.annotate("op", record.AnnotationEvacuated, "zc")
				time.Sleep(3 * time.Second)
			}, "handover op", "went from op-za_1 (za) to op-zd_1 (zd)\n", exitOK, "op-zd_1",
		},
		"its node may tell, and the leader is told its name": {
			func(w *world) { hidden(w); w.hosts("op-zb", "zb") }, "handover op --to-zone zb", "went from op-za_1 (za) to op-zb_1 (zb)\n", exitOK, "op-zb_1",
		},
		"an evacuation may lead to it": {
			hidden, "evacuate za", "moved: to a leader whose zone is not known\n", exitError, "op-zb_1",
		},
		"which a dry run says": {hidden, "evacuate za --dry-run", "may move: to a candidate whose zone is not known\n", exitOK, "op-za_1"},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				tc.fill(w)
				r := w.run(strings.Fields(tc.line)...)
				if !strings.Contains(r.out+r.errors, tc.says) || r.code != tc.code || w.leader("op") != tc.leads {
					t.Errorf("exit code %d, %s leads: %s%s\nwant %q", r.code, w.leader("op"), r.out, r.errors, tc.says)
				}
			})
		})
	}
}

// TestWhoIsNextGoesByWhatCandidatesKnow, not by what their nodes say: that is how they order
// themselves.
func TestWhoIsNextGoesByWhatCandidatesKnow(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		lost := func(o *presence.Object) { o.Zone, o.TakeoverDelay = "", presence.ByZones([]string{"zb"}) }
		for _, zone := range []string{"za", "zb", "zc"} {
			w.announce("op", "op-"+zone, zone, "", lost)
		}
		w.putLease(newLease("op", "op-x_1", "zx"))
		var next inspect.Next
		if w.read(t, "status op", ".status.next", &next); next.Identity == "op-zb_1" || next.Zone == "" {
			t.Errorf("next is %v, although no candidate knows that it is in the preferred zone", next)
		}
	})
}
