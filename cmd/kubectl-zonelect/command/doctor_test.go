// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
)

// well makes a cluster without a fault, with three candidates.
func (w *world) well() {
	w.three()
	w.putLease(led())
}

// answers makes the server answer certain requests otherwise.
func (w *world) answers(to string, with func(verb, path string) (int, apitest.Object)) {
	w.server.Before = func(verb, path string) (int, apitest.Object) {
		if strings.Contains(verb+" "+path, to) {
			return with(verb, path)
		}
		return 0, nil
	}
}

// TestDoctorFindsWhatIsWrong in set-ups that differ from a healthy one in one respect. The
// golden files have all that it says; this has the one line that matters, and the exit code.
func TestDoctorFindsWhatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		breaks func(w *world)
		want   string // the beginning of a line, with single spaces
		code   int
	}{
		"healthy": {func(*world) {}, "ok lock op-a_1 (za) has led for 5m, with token 4711", exitOK},
		"silent": {func(w *world) {
			w.putLease(led(renewed(time.Minute)))
		}, "problem lock op-a_1 (za) holds the lock and does not renew it", exitError},
		"just-released": {func(w *world) {
			w.putLease(led(releasedBy(time.Second)))
		}, "warning lock nobody leads: the lock became released 1s ago", exitOK},
		"cleared": {func(w *world) {
			w.putLease(led(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("") }))
		}, "problem lock nobody leads: somebody removed the holder's name", exitError},
		"no-lease": {func(w *world) {
			w.server.Delete(leasesPath + "op")
		}, "problem lock there is no Lease, although candidates have announced themselves", exitError},
		"all-gone": {func(w *world) {
			w.putLease(led(renewed(time.Minute)))
			for _, pod := range []string{"op-a", "op-b", "op-c"} {
				w.deletePod(pod)
			}
		}, "problem candidates the pods of all 3 candidates that announced themselves are gone", exitError},
		"one-zone": {func(w *world) {
			for _, pod := range []string{"op-b", "op-c"} {
				w.announce("op", pod, "za", "", inModeLease)
			}
		}, "warning candidates all 3 candidates are in zone za", exitOK},
		"unfit": {func(w *world) {
			w.putLease(led(releasedBy(time.Hour)))
			w.announce("op", "op-a", "za", "", inModeLease, func(o *presence.Object) { o.Unhealthy = "no disk\n\x1b[2J" })
			w.hosts("op-b", "zb", func(p *corev1.Pod, _ *corev1.Node) { p.Status.Phase = corev1.PodPending })
			w.hosts("op-c", "zc", func(_ *corev1.Pod, n *corev1.Node) { n.Status.Conditions = nil })
		}, "problem candidates no candidate is ready, healthy and on a ready node", exitError},
		"no-downward-api": {func(w *world) {
			w.announce("op", "op-b", "", "", inModeLease, func(o *presence.Object) { o.Node = "" })
			w.announce("op", "op-c", "", "", inModeLease, func(o *presence.Object) { o.Version, o.Node = "v1.1.0", "node-zc" })
			w.putLease(led(func(l *coordinationv1.Lease) { l.Annotations[record.AnnotationPod] = "" }))
		}, "warning environment these candidates do not know their zone: op-b_1", exitOK},
		"elsewhere": {func(w *world) { // the pods are in another namespace than the lock
			w.announce("op", "op-a", "za", "", inModeLease, func(o *presence.Object) { o.Pod, o.Renewed = presence.Pod{}, time.Now().Unix() })
		}, "note environment op-a_1 says that it runs in pod op-a, which is not known in namespace ns", exitOK},
		"rights": {func(w *world) {
			w.lacks = map[string]bool{"update leases": true, "list leases": true}
		}, "problem rights service account default may not update leases.coordination.k8s.io/op", exitError},
		"endless": {func(w *world) {
			w.putLease(led(func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = ptr.To(int32(365 * 24 * 3600)) }))
		}, "problem timing the Lease says that it lasts 365d", exitError},
		"legacy-leads": {func(w *world) {
			for path := range maps.Clone(w.server.Objects) {
				if strings.HasPrefix(path, leasesPath) { // the lock, and those who have announced themselves
					w.server.Delete(path)
				}
			}
			w.hosts("old-0", "za")
			w.putConfigMap("op", nil, byPod("old-0"))
		}, "note candidates no candidate has announced itself", exitOK},
		"wrong-mode": {func(w *world) {
			const why = "the phase on the Lease is dual, and this candidate knows the Lease alone: run it in mode auto"
			w.putLease(led(releasedBy(time.Hour), phased(record.PhaseDual, 1)))
			for _, pod := range []string{"op-a", "op-b", "op-c"} {
				w.announce("op", pod, "z"+pod[3:], why, inModeLease)
			}
		}, "problem lock nobody leads: the lock is released and has been for 60m, and no candidate took it", exitError},
		"legacy-pod-gone": {func(w *world) {
			w.putLease(led(phased(record.PhaseDual, 1)))
			w.putConfigMap("op", nil, byPod("old-0"))
		}, "warning legacy configmap/op belongs to pod/old-0, which does not exist", exitOK},
		"stuck-migration": {func(w *world) {
			w.announce("op", "op-a", "za", "legacy pod old-0 may still lead: its node is silent")
			w.putLease(led(phased(record.PhaseDual, 1)))
			w.hosts("old-0", "zd", func(p *corev1.Pod, _ *corev1.Node) { p.Status.Conditions = nil })
			w.putConfigMap("op", nil, byPod("old-0"))
		}, "problem lock op-a_1 (za) has had the lock for 5m, with token 4711, and its work has not begun: legacy pod old-0 may still lead", exitError},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				w.well()
				tc.breaks(w)
				r := w.run("doctor", "op")
				golden(t, "doctor-"+name, r)
				if r.code != tc.code || !saysLine(r.out, tc.want) {
					t.Errorf("exit code %d, want %d and %q:\n%s%s", r.code, tc.code, tc.want, r.out, r.errors)
				}
			})
		})
	}
}

// saysLine reports whether a line, with single spaces between its words, begins like that.
func saysLine(out, want string) bool {
	for line := range strings.SplitSeq(out, "\n") {
		if strings.HasPrefix(strings.Join(strings.Fields(line), " "), strings.Join(strings.Fields(want), " ")) {
			return true
		}
	}
	return false
}

func TestDoctorLooksAtAllLocksInEveryFormat(t *testing.T) {
	for name, args := range map[string][]string{
		"doctor-all":     {"doctor"},
		"doctor-json":    {"doctor", "op", "-o", "json"},
		"doctor-absent":  {"doctor", "none"},
		"doctor-account": {"doctor", "none", "--service-account", "op"},
		"doctor-nowhere": {"doctor", "-n", "nss"},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				w.well()
				w.putLease(newLease("other", "other-a_1", "za", renewed(time.Hour)))
				w.putConfigMap("old", nil, byPod("old-0"))
				golden(t, name, w.run(args...))
			})
		})
	}
}

func TestDoctorOfAnEmptyNamespaceAndOfTooManyLocks(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		if r := w.run("doctor"); r.code != exitOK || !saysLine(r.out, "warning lock no locks were found in namespace ns") {
			t.Errorf("exit code %d: %s%s", r.code, r.out, r.errors)
		}
		for _, line := range []string{"doctor", "doctor op"} {
			w.server.Before = nil
			if r := w.run(append(strings.Fields(line), "-n", "nss")...); r.code != exitError || !strings.HasPrefix(r.errors, "error: namespace nss does not exist") {
				t.Errorf("%s: exit code %d: %s%s", line, r.code, r.out, r.errors)
			}
			w.answers("get /api/v1/namespaces/ns", apitest.Forbidden)
			if r := w.run(strings.Fields(line)...); !strings.Contains(r.out, "cannot tell whether namespace ns exists") {
				t.Errorf("%s: exit code %d: %s%s", line, r.code, r.out, r.errors)
			}
		}
		w.server.Before = nil
		for i := range mostLocks + 3 {
			w.putLease(newLease(fmt.Sprint("op-", i), "a_1", "za"))
		}
		if r := w.run("doctor"); r.code != exitOK || !saysLine(r.out, "note lock 3 locks more are not checked") || strings.Count(r.out, "a_1 (za) has led") != mostLocks {
			t.Errorf("exit code %d: %s%s", r.code, r.out, r.errors)
		}
	})
}

// TestDoctorSaysWhatMayNotBeReadAndGoesOn, with the role that grants it.
func TestDoctorSaysWhatMayNotBeReadAndGoesOn(t *testing.T) {
	const role = "; ClusterRole zonelect-doctor grants that"
	for right, want := range map[string]string{
		"get /apis/coordination.k8s.io":         "problem lock the Lease could not be read:",
		"list /apis/coordination.k8s.io":        "note lock the candidates are not known:",
		"/pods/":                                "note lock whether the candidates' pods run is not known:",
		"/nodes":                                "note lock whether the candidates' nodes are ready is not known:",
		"no subject access review may be made!": "note rights whether the candidates may write the lock is not known:",
	} {
		t.Run(right, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				w.well()
				w.answers(right, apitest.Forbidden)
				w.denied = strings.HasSuffix(right, "!")
				r := w.run("doctor", "op")
				if !saysLine(r.out, want) || !strings.Contains(r.out, role) {
					t.Errorf("want %q%s:\n%s%s", want, role, r.out, r.errors)
				}
			})
		})
	}
	inABubble(t, func(t *testing.T, w *world) {
		w.well()
		w.answers("", apitest.Forbidden)
		w.denied = true
		golden(t, "doctor-nothing-permitted", w.run("doctor", "op"))
		w.absent = fmt.Errorf("no route to host")
		golden(t, "doctor-no-server", w.run("doctor", "op"))
	})
}
