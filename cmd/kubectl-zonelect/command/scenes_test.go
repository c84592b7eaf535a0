// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"maps"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
)

// fill makes a namespace with locks of all kinds.
func (w *world) fill() {
	a := w.announce("op", "op-a", "za", "")
	b := w.announce("op", "op-b", "zb", "")
	c := w.announce("op", "op-c", "zb", "")
	w.putLease(newLease("op", "op-a_1", "za", phased(record.PhaseDual, 1)))
	w.shield("op", true, 1, a, b, c)

	w.putLease(newLease("plain", "plain-x_1", "zc"))
	w.putLease(newLease("given-up", "", "", func(l *coordinationv1.Lease) { l.Annotations[record.AnnotationReleased] = "4711" }))
	w.putLease(newLease("emptied", "", "", func(l *coordinationv1.Lease) { delete(l.Annotations, record.AnnotationReleased) }))
	w.putLease(newLease("moved", "moved-a_1", "za", phased(record.PhaseSealed, 2)))
	w.putConfigMap("moved", marked(record.PhaseSealed, 2, "moved-old", "u"))
	w.announce("waits", "waits-a", "za", "legacy pod waits-old may still lead: it runs")
	w.putLease(newLease("waits", "waits-a_1", "za", phased(record.PhaseDual, 1)))
	w.putConfigMap("waits", nil, byPod("waits-old"))
	// Not a lock that zonelect knows.
	w.putLease(newLease("kube-other", "someone", "", func(l *coordinationv1.Lease) { l.Annotations = nil }))
	w.putLease(newLease("elsewhere", "e_1", "ze", func(l *coordinationv1.Lease) { l.Namespace = "other" }))
}

// records makes locks that move off election records.
func (w *world) records() {
	said := map[string]string{"control-plane.alpha.kubernetes.io/leader": `{"holderIdentity":"old_7","leaseDurationSeconds":15}`}
	w.putConfigMap("a", said)
	w.putConfigMap("broken", map[string]string{"control-plane.alpha.kubernetes.io/leader": `{`})
	w.server.Put("/api/v1/namespaces/ns/endpoints/b", apitest.Object{
		"apiVersion": "v1", "kind": "Endpoints", "metadata": apitest.Object{"name": "b", "namespace": "ns", "annotations": said},
	})
	w.putLease(newLease("a", "a_1", "za", phased(record.PhaseDual, 1)))
	w.putLease(newLease("b", "b_1", "za", phased(record.PhaseDual, 1), func(l *coordinationv1.Lease) {
		l.Annotations[record.AnnotationLegacy] = "annotation/endpoints/b"
	}))
	w.putLease(newLease("broken", "c_1", "za", phased(record.PhaseDual, 1)))
}

// inModeLease is what a candidate in mode lease announces.
func inModeLease(o *presence.Object) { o.Mode = "lease" }

// well makes a lock without a fault, with three candidates in mode lease, each in a zone of its own; op-a leads.
func (w *world) well() {
	for pod, zone := range map[string]string{"op-a": "za", "op-b": "zb", "op-c": "zc"} {
		w.announce("op", pod, zone, "", inModeLease)
	}
	w.putLease(led())
}

func (w *world) deletePod(name string) { w.server.Delete("/api/v1/namespaces/ns/pods/" + name) }

// scene shows a lock, or what well makes of it, with a change.
type scene struct {
	name, line string
	breaks     func(w *world)
}

// TestWhatCommandsSayOfWhatThereIs: the golden files have all of it. No warning, note or problem may appear that a
// scene does not call for.
func TestWhatCommandsSayOfWhatThereIs(t *testing.T) {
	lease := func(changes ...func(*coordinationv1.Lease)) func(*world) {
		return func(w *world) { w.putLease(led(changes...)) }
	}
	phase := func(p record.Phase) func(*coordinationv1.Lease) { return phased(p, 2) }
	on := func(key, value string) func(*coordinationv1.Lease) {
		return func(l *coordinationv1.Lease) { l.Annotations[key] = value }
	}
	noHolder := func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("") }
	night := func(w *world) {
		w.hosts("op-a", "za", func(p *corev1.Pod, n *corev1.Node) { p.Status.Conditions, n.Status.Conditions = nil, nil })
		w.announce("op", "op-b", "zb", "", inModeLease, func(o *presence.Object) { o.Unhealthy = "cannot reach the storage of zone zb" })
		w.deletePod("op-c")
		w.putLease(newLease("op", "op-a_1", "za", on(record.AnnotationEvacuated, "za=2000-01-01T02:00:00Z,zd=1999-12-31T23:00:00Z,ze")))
	}
	oneZone := func(w *world) {
		for _, pod := range []string{"op-b", "op-c"} {
			w.announce("op", pod, "za", "", inModeLease)
		}
	}
	allGone := func(w *world) {
		w.putLease(led(renewed(time.Minute)))
		for _, pod := range []string{"op-a", "op-b", "op-c"} {
			w.deletePod(pod)
		}
		w.hosts("op-b", "zb", func(p *corev1.Pod, _ *corev1.Node) { p.UID = "of-another" })
	}
	for _, tc := range []scene{
		{"is-held", "status op", nil},
		{"is-held-list", "status", nil},
		{"is-released", "status op", lease(releasedBy(time.Minute))},
		{"is-cleared", "status op", lease(noHolder)},
		{"is-slow-handover", "status op", lease(after("op-b_1", "released", time.Second))},
		{"is-handover", "status op", lease(after("op-b_1", "released", 999*time.Millisecond))},
		{"is-led-by-a-legacy-pod", "status op", func(w *world) {
			w.putLease(led(releasedBy(time.Minute), phase(record.PhaseDual)))
			w.putConfigMap("op", nil, byPod("old-0"))
		}},
		{"night", "status op", night},
		{"night-json", "status op -o json", night},
		{"night-list", "status", night},
		{"status-no-zones", "status op", func(w *world) {
			for _, pod := range []string{"op-a", "op-b", "op-c"} {
				w.announce("op", pod, "", "", inModeLease, func(o *presence.Object) { o.Node = "../../x" }) // no node has that name
			}
			w.putLease(led(on(record.AnnotationZone, ""), on(record.AnnotationEvacuated, "zb")))
		}},
		{"status-all-evacuated", "status op", lease(on(record.AnnotationEvacuated, "zc,za,zb"))},
		{"status-garbage", "status op", lease(on(record.AnnotationEvacuated, "zb=soon"))},

		{"doctor-healthy", "doctor op", nil},
		{"doctor-silent", "doctor op", lease(renewed(time.Minute))},
		{"doctor-just-released", "doctor op", lease(releasedBy(time.Second))},
		{"doctor-cleared", "doctor op", lease(noHolder)},
		{"doctor-no-lease", "doctor op", func(w *world) { w.server.Delete(leasesPath + "op") }},
		{"doctor-all-gone", "doctor op", allGone},
		{"doctor-one-zone", "doctor op", oneZone},
		{"doctor-unfit", "doctor op", func(w *world) {
			w.putLease(led(releasedBy(time.Hour)))
			w.announce("op", "op-a", "za", "", inModeLease, func(o *presence.Object) { o.Unhealthy = "no disk\n\x1b[2J" })
			w.hosts("op-b", "zb", func(p *corev1.Pod, _ *corev1.Node) { p.Status.Phase = corev1.PodPending })
			w.hosts("op-c", "zc", func(_ *corev1.Pod, n *corev1.Node) { n.Status.Conditions = nil })
		}},
		{"doctor-no-downward-api", "doctor op", func(w *world) {
			w.announce("op", "op-b", "", "", inModeLease, func(o *presence.Object) { o.Node = "" })
			w.announce("op", "op-c", "", "", inModeLease, func(o *presence.Object) { o.Node = "node-zc" })
			w.putLease(led(on(record.AnnotationPod, "")))
		}},
		{"doctor-rights", "doctor op", func(w *world) { w.lacks = map[string]bool{"update leases": true, "list leases": true} }},
		{"doctor-endless", "doctor op", lease(func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = ptr.To(int32(365 * 24 * 3600)) })},
		{"doctor-legacy-leads", "doctor op", func(w *world) {
			for path := range maps.Clone(w.server.Objects) {
				if strings.HasPrefix(path, leasesPath) { // the lock, and those who have announced themselves
					w.server.Delete(path)
				}
			}
			w.hosts("old-0", "za")
			w.putConfigMap("op", nil, byPod("old-0"))
		}},
		{"doctor-legacy-pod-gone", "doctor op", func(w *world) {
			w.putLease(led(phase(record.PhaseDual)))
			w.putConfigMap("op", nil, byPod("old-0"))
		}},
		{"doctor-stuck-migration", "doctor op", func(w *world) {
			w.announce("op", "op-a", "za", "legacy pod old-0 may still lead: its node is silent")
			w.putLease(led(phase(record.PhaseDual)))
			w.hosts("old-0", "zd", func(p *corev1.Pod, _ *corev1.Node) { p.Status.Conditions = nil })
			w.putConfigMap("op", nil, byPod("old-0"))
		}},
		{"hint-lonely", "doctor op", func(w *world) {
			w.deletePod("op-b")
			w.deletePod("op-c")
			w.putLease(led(on(record.AnnotationPod, "")))
		}},
		{"hint-new", "doctor op", func(w *world) {
			w.putLease(newLease("op", "", "za", func(l *coordinationv1.Lease) { l.Annotations, l.Spec.AcquireTime = nil, nil }))
		}},
		{"hint-future", "doctor op", lease(renewed(-time.Hour))},
		{"hint-condemned", "doctor op", func(w *world) {
			w.putLease(led(phase(record.PhaseDual)))
			w.putConfigMap("op", nil, byPod("old-0"))
			w.server.Change(mapsPath+"op", func(o apitest.Object) {
				meta := o["metadata"].(apitest.Object)
				meta["deletionTimestamp"], meta["finalizers"] = time.Now().UTC().Format(time.RFC3339), []any{"example.com/hold"}
			})
		}},
		{"hint-beside", "doctor op", func(w *world) {
			w.putLease(led(phase(record.PhaseClean)))
			w.hosts("old-0", "za")
			w.putConfigMap("op", nil, byPod("old-0"))
		}},
		{"hint-scaffold", "doctor op", func(w *world) { // as kubebuilder makes it, scaled up
			for pod, zone := range map[string]string{"op-a": "za", "op-b": "zb", "op-c": "zc"} {
				w.announce("op", pod, zone, "", inModeLease, func(o *presence.Object) { o.Stop = "30s" })
				w.hosts(pod, zone, func(pod *corev1.Pod, _ *corev1.Node) {
					set := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "op-6c5f8", UID: "uid", Controller: ptr.To(true)}
					pod.OwnerReferences = []metav1.OwnerReference{set}
					pod.Labels = map[string]string{"pod-template-hash": "6c5f8"}
					pod.Spec.TerminationGracePeriodSeconds = ptr.To(int64(10))
				})
			}
		}},
		{"doctor-all", "doctor", func(w *world) {
			w.putLease(newLease("other", "other-a_1", "za", renewed(time.Hour)))
			w.announce("other", "other-a", "za", "")
			w.hosts("other-a", "za", func(p *corev1.Pod, _ *corev1.Node) { p.Status.Phase = corev1.PodPending })
		}},
		{"doctor-json", "doctor op -o json", nil},
		{"doctor-absent", "doctor none", nil},
		{"doctor-account", "doctor none --service-account op", nil},
		{"doctor-nothing-permitted", "doctor op", func(w *world) { w.forbid("", ""); w.denied = true }},
		{"doctor-no-pods", "doctor op", func(w *world) { w.forbid("", "/pods/"); w.denied = true }},
		{"doctor-no-nodes", "doctor op", func(w *world) { w.forbid("", "/nodes") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inABubble(t, func(w *world) {
				if w.well(); tc.breaks != nil {
					tc.breaks(w)
				}
				golden(t, tc.name, w.run(strings.Fields(tc.line)...))
			})
		})
	}
	nothing := func(*world) {}
	legacy := func(w *world) { w.putConfigMap("op", nil, byPod("old-0")) }
	for _, tc := range []scene{
		{"list", "status", (*world).fill},
		{"list-json", "status -o json", (*world).fill},
		{"several", "status plain lease/given-up", (*world).fill},
		{"everywhere", "status -A", (*world).fill},
		{"one", "status op", (*world).fill},
		{"waits", "status waits", (*world).fill},
		{"client-go", "status kube-other", (*world).fill},
		{"records", "status", (*world).records},
		{"legacy", "status op", legacy},
		{"absent", "status op", nothing},
		{"absent-watched", "status op -w", nothing},
		{"empty", "status", nothing},
		{"empty-json", "status -A -o json", nothing},
		{"doctor-empty", "doctor", nothing},
		{"evacuate-empty", "evacuate za", nothing},
		{"audit-empty", "audit -A", nothing},
		{"audit-empty-json", "audit -A -o json", nothing},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inABubble(t, func(w *world) {
				tc.breaks(w)
				golden(t, tc.name, w.run(strings.Fields(tc.line)...))
			})
		})
	}
}
