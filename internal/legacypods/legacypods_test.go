// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package legacypods

import (
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/locks/ownerref"
)

func TestNewLegacyPodsListsWhatIsWrong(t *testing.T) {
	fine := newWorld(t).legacyPods(0).config
	for name, tc := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"no client":          {func(c *Config) { c.Core = nil }, "REST client for v1"},
		"no way to find":     {func(c *Config) { c.PodSelector, c.Apps = "", nil }, "REST client for apps/v1"},
		"no selector":        {func(c *Config) { c.PodSelector = "a=b=c" }, "a=b=c"},
		"one for everything": {func(c *Config) { c.PodSelector = " " }, "no or all pods"},
		"a hasty grace":      {func(c *Config) { c.LegacyGrace = 19 * time.Second }, "at least 20s"},
	} {
		config := fine
		tc.change(&config)
		if _, err := New(config); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want words like %q", name, err, tc.says)
		}
	}
}

// ofAnother gives a pod the label of another operator.
func ofAnother(p *corev1.Pod) { p.Labels = map[string]string{"app": "else"} }

func TestLegacyPodsAreThoseWithoutAPresence(t *testing.T) {
	w := newWorld(t)
	c := w.legacyPods(0)
	w.counts(c, 0, "[] []")
	w.candidate("b")
	w.pod("old-1", "n1")
	w.pod("old-2", "n1", terminating)
	w.pod("pending", "", phase(corev1.PodPending, ""), containers())
	w.pod("stranger", "n1", ofAnother)
	got := w.counts(c, 0, "[old-1 old-2 pending] []")
	if p := got.Standing[1]; p.Pod != podOf("old-2") || p.Node != "n1" || p.Verdict.State != Terminating {
		t.Errorf("says of one %+v", p)
	}
	// A candidate whose presence is gone cannot be told from a legacy pod.
	w.Delete("/apis/coordination.k8s.io/v1/namespaces/ns/leases/" + w.present(podOf("b")).Name)
	w.counts(c, 0, "[b old-1 old-2 pending] []")
}

func TestAPodThatNeverStartedIsNotLegacyIfItIsOfTheOwnRevision(t *testing.T) {
	of := func(kind, name, hash string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Labels = map[string]string{"app": "op", "controller-revision-hash": hash}
			p.OwnerReferences = controlledBy("apps/v1", kind, name)
		}
	}
	waiting := containers(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}})
	crashed := func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0] = corev1.ContainerStatus{LastTerminationState: ended}
	}
	pending := phase(corev1.PodPending, "")
	type state = []func(*corev1.Pod)
	newSet, oldSet := of("ReplicaSet", "new", ""), of("ReplicaSet", "old", "")
	r1, r2 := of("StatefulSet", "set", "r1"), of("StatefulSet", "set", "r2")
	for name, c := range map[string]struct {
		own, pod func(*corev1.Pod)
		state    state
		legacy   bool
	}{
		"the same ReplicaSet, no image":      {newSet, newSet, state{pending, waiting}, false},
		"the same ReplicaSet, no node":       {newSet, newSet, state{pending, containers()}, false},
		"the same ReplicaSet, and it ran":    {newSet, newSet, state{pending, crashed}, true},
		"the same ReplicaSet, and it runs":   {newSet, newSet, nil, true},
		"another ReplicaSet":                 {newSet, oldSet, state{pending, waiting}, true},
		"the same revision of a StatefulSet": {r2, r2, state{pending, waiting}, false},
		"another revision of a StatefulSet":  {r2, r1, state{pending, waiting}, true},
		"no controller":                      {func(*corev1.Pod) {}, func(*corev1.Pod) {}, state{pending, waiting}, true},
	} {
		w := newWorld(t)
		w.pod("self", "n1", append([]func(*corev1.Pod){func(p *corev1.Pod) { p.UID = podOf("self").UID }}, c.own)...)
		w.pod("p", "n1", append([]func(*corev1.Pod){c.pod}, c.state...)...)
		if got := len(w.take(w.legacyPods(0)).Standing); got != map[bool]int{true: 1}[c.legacy] {
			t.Errorf("%s: %d pods stand", name, got)
		}
	}
}

// TestOneWhoOnlyLooksNeedsNoPodOfItsOwn: a tool is not a candidate.
func TestOneWhoOnlyLooksNeedsNoPodOfItsOwn(t *testing.T) {
	w := newWorld(t)
	w.pod("old", "n1")
	w.counts(w.legacyPods(0, func(c *Config) { c.Self = ownerref.Owner{} }), 0, "[old] []")
}

// TestALegacyOwnersRevisionIsLegacy: a tool that only looks may start from the owner's
// pod.
func TestALegacyOwnersRevisionIsLegacy(t *testing.T) {
	w := newWorld(t)
	of := func(p *corev1.Pod) { p.OwnerReferences = controlledBy("apps/v1", "ReplicaSet", "old") }
	w.pod("old-1", "n1", of)
	w.pod("old-2", "n1", of, phase(corev1.PodPending, ""), containers())
	c := w.legacyPods(0, func(c *Config) { c.Self = podOf("old-1") })
	if got := text(w.take(c, podOf("old-1"))); got != "[old-1 old-2] []" {
		t.Errorf("counted %s", got)
	}
}

// TestAPresenceIsThatOfOnePodByUID: a StatefulSet's legacy pod may have the name of an
// earlier candidate.
func TestAPresenceIsThatOfOnePodByUID(t *testing.T) {
	w := newWorld(t)
	w.candidate("op-0")
	w.pod("op-0", "n1", uid("successor"))
	w.pod("self", "n1", uid("another-self"))
	w.counts(w.legacyPods(0), 0, "[op-0 self] []")
}

func TestLegacyOwnersMustBeGoneByUID(t *testing.T) {
	for name, tc := range map[string]struct {
		set   func(*world)
		want  string
		wrong string
	}{
		"gone":                  {func(*world) {}, "[] []", ""},
		"another has its name":  {func(w *world) { w.pod("old", "n1", uid("another")) }, "[old] []", ""},
		"... and no label":      {func(w *world) { w.pod("old", "n1", uid("another"), ofAnother) }, "[] []", ""},
		"terminating":           {func(w *world) { w.pod("old", "n1", terminating) }, "[old] []", ""},
		"selected by no one":    {func(w *world) { w.pod("old", "n1", ofAnother) }, "", `selector "app=op" does not match`},
		"... not even at last":  {func(w *world) { w.pod("old", "n1", ofAnother, terminating) }, "", `pod old/uid-old is or was`},
		"it has a presence now": {func(w *world) { w.candidate("old") }, "[old] []", ""},
	} {
		for _, how := range []string{"owner", "seen"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				w := newWorld(t)
				tc.set(w)
				owner, seen := podOf("old"), []ownerref.Owner(nil)
				if how == "seen" {
					owner, seen = ownerref.Owner{}, []ownerref.Owner{podOf("old")}
				}
				got, err := w.legacyPods(0).Count(t.Context(), owner, seen)
				if tc.wrong != "" {
					if !errors.Is(err, ErrSelector) || !strings.Contains(err.Error(), tc.wrong) {
						t.Errorf("got %v, want words like %q", err, tc.wrong)
					}
				} else if err != nil || text(got) != tc.want {
					t.Errorf("counted %s, %v, want %s", text(got), err, tc.want)
				}
			})
		}
	}
	// This program's pod held the lock before this program ran in it.
	w := newWorld(t)
	if got := text(w.take(w.legacyPods(0), podOf("self"))); got != "[self] []" {
		t.Errorf("counted %s", got)
	}
}

func TestTheSelectorIsThatOfTheOwnPodsController(t *testing.T) {
	byRS := func(w *world) {
		w.pod("self", "n0", func(p *corev1.Pod) { p.OwnerReferences = controlledBy("apps/v1", "ReplicaSet", "rs") })
	}
	replicaSet := func(owners []metav1.OwnerReference) func(*world) {
		return func(w *world) {
			rs := &appsv1.ReplicaSet{}
			rs.Name, rs.UID, rs.OwnerReferences = "rs", "uid-rs", owners
			w.Put(appsPath+"replicasets/rs", rs)
		}
	}
	deployment := func(w *world) {
		d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "op"}}}}
		d.Name, d.UID = "d", podOf("d").UID
		w.Put(appsPath+"deployments/d", d)
	}
	for name, tc := range map[string]struct {
		set  []func(*world)
		says string // of the error; empty for none
	}{
		"Deployment": {[]func(*world){byRS, replicaSet(controlledBy("apps/v1", "Deployment", "d")), deployment}, ""},
		"nobody":     {nil, "belongs to no Deployment: set a label selector"},
		"a Rollout":  {[]func(*world){byRS, replicaSet(controlledBy("argoproj.io/v1alpha1", "Rollout", "r"))}, "belongs to no Deployment"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.pod("old", "n1")
			w.pod("stranger", "n1", ofAnother)
			for _, set := range tc.set {
				set(w)
			}
			c := w.legacyPods(0, func(c *Config) { c.PodSelector = "" })
			if tc.says == "" {
				w.counts(c, 0, "[old] []")
				return
			}
			_, err := c.Count(t.Context(), ownerref.Owner{}, nil)
			if !errors.Is(err, ErrSelector) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want words like %q", err, tc.says)
			}
		})
	}
}

// refusing answers requests with this verb, and this in their path, with a code.
func refusing(code int, verb, in string) func(verb, path string) int {
	return func(v, path string) int {
		if v == verb && strings.Contains(path, in) {
			return code
		}
		return 0
	}
}
