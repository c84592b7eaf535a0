// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
)

// inModeLease is what a candidate in mode lease announces.
func inModeLease(o *presence.Object) { o.Mode = "lease" }

func evacuated(text string) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) { l.Annotations[record.AnnotationEvacuated] = text }
}

func (w *world) deletePod(name string) { w.server.Delete("/api/v1/namespaces/ns/pods/" + name) }

// TestStatusWarnsOfWhatMayBecomeTrouble: each row begins with three candidates in mode lease,
// each in a zone of its own; op-a leads. No warning or note may appear that the row does not
// want.
func TestStatusWarnsOfWhatMayBecomeTrouble(t *testing.T) {
	for name, tc := range map[string]struct {
		happens func(*world)
		want    []string
	}{
		"nothing": {func(*world) {}, nil},
		"all in one zone of two": {func(w *world) {
			for _, pod := range []string{"op-b", "op-c"} {
				w.announce("op", pod, "za", "", inModeLease)
			}
			w.server.Delete("/api/v1/nodes/node-zb")
		}, []string{"warning: op: all 3 candidates are in zone za: nobody takes over when that zone dies", "zone zc has nodes and no candidate"}},
		"one candidate only": {func(w *world) {
			w.deletePod("op-b")
			w.deletePod("op-c")
		}, []string{
			"warning: op: only one candidate has announced itself: nobody takes over from op-a_1",
			"note: op: the presence of pod op-b is left over", "note: op: the presence of pod op-c is left over",
			"note: op: zone zb has nodes and no candidate", "note: op: zone zc has nodes and no candidate",
		}},
		"all are gone": {func(w *world) {
			w.deletePod("op-a")
			w.hosts("op-b", "zb", func(p *corev1.Pod, _ *corev1.Node) { p.UID = "of-another" })
			w.deletePod("op-c")
		}, []string{"op-a_1 holds the lock and has no presence", "left over: that pod is gone", "left over: that pod is gone", "left over: that pod is gone"}},
		"the holder is not known": {func(w *world) {
			w.putLease(newLease("op", "stranger", "za"))
		}, []string{"warning: op: stranger holds the lock and has no presence: it does not announce itself, or it is gone"}},
		"one is unhealthy": {func(w *world) {
			w.announce("op", "op-b", "zb", "", inModeLease, func(o *presence.Object) { o.Unhealthy = "no disk\n\x1b[2J" })
		}, []string{"warning: op: op-b_1 says that it is unhealthy: no disk \ufffd[2J\n"}},
		"a node that is not ready": {func(w *world) {
			w.hosts("op-b", "zb", func(p *corev1.Pod, n *corev1.Node) { p.Status.Conditions, n.Status.Conditions = nil, nil })
		}, []string{"warning: op: the pod of op-b_1 is NotReady", "warning: op: the node of op-b_1, node-zb, is not ready"}},
		"a node that is gone": {func(w *world) {
			w.server.Delete("/api/v1/nodes/node-zb")
		}, []string{"warning: op: the node of op-b_1, node-zb, does not exist", "warning: op: zone zb has candidates and no nodes"}},
		"a zone without candidates": {func(w *world) {
			w.hosts("another", "zd")
			w.hosts("third", "ze")
		}, []string{"note: op: zone zd has nodes and no candidate", "note: op: zone ze has nodes and no candidate"}},
		"no zones are known": {func(w *world) {
			for _, pod := range []string{"op-a", "op-b", "op-c"} {
				w.announce("op", pod, "", "", inModeLease, func(o *presence.Object) { o.Node = "" })
			}
		}, []string{"note: op: the zone of some candidates is not known"}},
		"evacuated zones": {func(w *world) {
			w.putLease(newLease("op", "op-a_1", "za", evacuated("zb,zc=2000-01-01T00:10:00Z,zd=1999-12-31T23:00:00Z")))
		}, []string{
			"note: op: zone zb is evacuated until it is restored", "note: op: zone zc is evacuated until 2000-01-01T00:10:00Z (10m from now)",
			"note: op: the evacuation of zone zd ended at 1999-12-31T23:00:00Z",
		}},
		"a leader in an evacuated zone": {func(w *world) {
			w.putLease(newLease("op", "op-a_1", "za", evacuated("za")))
		}, []string{"warning: op: op-a_1 leads in zone za, which is evacuated", "note: op: zone za is evacuated"}},
		"every zone is evacuated": {func(w *world) {
			w.putLease(newLease("op", "op-a_1", "za", evacuated("zc,za,zb")))
		}, []string{
			"warning: op: op-a_1 leads in zone za", "warning: op: every zone with candidates is evacuated",
			"zone za is evacuated", "zone zb is evacuated", "zone zc is evacuated",
		}},
		"evacuations that are garbage": {func(w *world) {
			w.putLease(newLease("op", "op-a_1", "za", evacuated("zb=soon")))
		}, []string{`warning: op: the annotation zonelect.dev/evacuated-zones cannot be read in full: evacuated zone "zb=soon"`}},
		"a Lease of somebody else's with the label": {func(w *world) {
			l := newLease("foreign", "op-x_1", "zx")
			l.Labels = map[string]string{presence.Label: "op"}
			l.OwnerReferences = []metav1.OwnerReference{byPod("../../x")}
			w.putLease(l)
		}, nil},
		"a node with a name that is none": {func(w *world) {
			w.announce("op", "op-b", "zb", "", inModeLease, func(o *presence.Object) { o.Node = "../../x" })
		}, []string{"warning: op: the node of op-b_1, ../../x, does not exist"}},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				w.three()
				tc.happens(w)
				r := w.run("status", "op")
				said := strings.SplitAfter(r.errors, "\n")
				said = said[:len(said)-1]
				for _, want := range tc.want {
					i := slices.IndexFunc(said, func(line string) bool { return strings.Contains(line, want) })
					if i < 0 {
						t.Errorf("it does not say %q", want)
						continue
					}
					said = slices.Delete(said, i, i+1)
				}
				if r.code != exitOK || len(said) > 0 {
					t.Errorf("exit code %d; it also says %q:\n%s", r.code, said, r.out)
				}
			})
		})
	}
}

// three makes a lock with three candidates in mode lease.
func (w *world) three() {
	for pod, zone := range map[string]string{"op-a": "za", "op-b": "zb", "op-c": "zc"} {
		w.announce("op", pod, zone, "", inModeLease)
	}
	w.putLease(newLease("op", "op-a_1", "za"))
}

func TestStatusAtThreeInTheMorning(t *testing.T) {
	for name, args := range map[string][]string{"night": {"status", "op"}, "night-json": {"status", "op", "-o", "json"}, "night-list": {"status"}} {
		inABubble(t, func(t *testing.T, w *world) {
			w.three()
			w.hosts("op-a", "za", func(p *corev1.Pod, n *corev1.Node) {
				p.Status.Conditions, n.Status.Conditions = nil, nil
			})
			w.announce("op", "op-b", "zb", "", inModeLease, func(o *presence.Object) { o.Unhealthy = "cannot reach the storage of zone zb" })
			w.deletePod("op-c")
			w.putLease(newLease("op", "op-a_1", "za", evacuated("za=2000-01-01T02:00:00Z")))
			golden(t, name, w.run(args...))
		})
	}
}

// TestWhatMayNotBeReadIsSaidAndNothingIsMadeUp: a presence alone does not prove that its
// candidate is alive.
func TestWhatMayNotBeReadIsSaidAndNothingIsMadeUp(t *testing.T) {
	for resource, note := range map[string]string{"pods": "whether the candidates' pods run is not known", "nodes": "whether the candidates' nodes are ready is not known"} {
		inABubble(t, func(t *testing.T, w *world) {
			w.three()
			w.deletePod("op-b")
			w.server.Before = func(verb, path string) (int, apitest.Object) {
				if strings.Contains(path, "/"+resource) {
					return apitest.Forbidden(verb, path)
				}
				return 0, nil
			}
			r := w.run("status", "op")
			if r.code != exitOK || strings.Count(r.errors, note) != 1 || !strings.Contains(r.errors, `needs verb "get" on `+strings.TrimSuffix(resource, "s")) {
				t.Errorf("exit code %d, it says:\n%s", r.code, r.errors)
			}
			if resource == "pods" && (strings.Count(r.out, "<unknown>") != 3 || strings.Contains(r.out, inspect.Ready)) {
				t.Errorf("it shows\n%s", r.out)
			}
		})
	}
}
