// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/locks/multilock"
)

// Candidate is a program that has announced itself with a presence object at the lock. The
// presence says what was true when it was written; only the pod and the node tell whether the
// candidate still runs.
type Candidate struct {
	Identity string `json:"identity"`
	Pod      string `json:"pod,omitempty"`
	Zone     string `json:"zone,omitempty"`
	Node     string `json:"node,omitempty"`
	Mode     string `json:"mode,omitempty"`
	// Waiting is what it waits for before it may lead, in words.
	Waiting string `json:"waiting,omitempty"`
	// Unhealthy is why the candidate says that it should not lead.
	Unhealthy string `json:"unhealthy,omitempty"`
	// PodState is Ready, NotReady, Terminating, Gone, or the pod's phase if that
	// is not Running. A candidate without a pod is Gone if it has not renewed its presence.
	// NodeState is Ready, NotReady or Gone. Empty means not known.
	PodState  string `json:"podState,omitempty"`
	NodeState string `json:"nodeState,omitempty"`

	Presence string `json:"-"` // the name of its presence object; empty if it has not announced itself
	UID      string `json:"-"` // of its pod; empty if its presence is renewed instead
	// Exists says whether its pod exists. A candidate without a pod exists as long as its presence
	// does.
	Exists bool `json:"-"`
	// ServiceAccount is the pod's; empty if the pod was not read.
	ServiceAccount string `json:"-"`
	// Runs is its pod, as it was read; nil if it was not, or if it is gone.
	Runs *corev1.Pod `json:"-"`
	// StopTimeout is how long its work may take to stop; zero if it does not say.
	StopTimeout time.Duration `json:"-"`
	// Workload is the pod's, as WorkloadOf names it; empty if the pod does not run or was not read.
	Workload string `json:"-"`
}

// The states of pods and nodes, besides the phases of pods.
const (
	Gone        = "Gone" // it does not exist
	Ready       = "Ready"
	NotReady    = "NotReady"
	Terminating = "Terminating"
)

func candidatesOf(presences []presence.Object) []Candidate {
	var all []Candidate
	for _, o := range presences {
		state := ""
		if o.Lapsed(time.Now()) {
			state = Gone
		}
		all = append(all, Candidate{
			Identity: o.Identity, Pod: o.Pod.Name, Zone: o.Zone, Node: o.Node, Mode: o.Mode, Waiting: o.Waiting,
			Unhealthy: o.Unhealthy, PodState: state,
			Presence: o.Name, UID: string(o.Pod.UID), StopTimeout: o.StopTimeout(),
		})
	}
	return all
}

// runsIn adds the state of its pod; nil means that there is no pod of that name. A pod with
// another UID is a later one of the same name.
func (c *Candidate) runsIn(pod *corev1.Pod) {
	switch {
	case c.InNoPod():
		c.Exists = true // clocks may differ: only its presence's end proves that it is gone
		return
	case pod == nil || string(pod.UID) != c.UID:
		c.PodState = Gone
		return
	}
	c.PodState, c.Exists, c.Runs = podState(pod), true, pod
	c.ServiceAccount = cmp.Or(pod.Spec.ServiceAccountName, "default")
	if c.Workload = WorkloadOf(pod); c.PodState != Ready && c.PodState != NotReady {
		c.Workload = ""
	}
}

func podState(pod *corev1.Pod) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return Terminating
	case pod.Status.Phase != corev1.PodRunning:
		return cmp.Or(string(pod.Status.Phase), string(corev1.PodUnknown))
	case slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}):
		return Ready
	}
	return NotReady
}

// nodeState returns the state of a node; nil means that the node does not exist.
func nodeState(node *corev1.Node) string {
	switch {
	case node == nil:
		return Gone
	case slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}):
		return Ready
	}
	return NotReady
}

// InNoPod reports whether the candidate announced itself, and no pod owns its presence.
func (c Candidate) InNoPod() bool { return c.Presence != "" && c.UID == "" }

// Name is the name of its pod, or its identity if it has none.
func (c Candidate) Name() string { return cmp.Or(c.Pod, c.Identity) }

// TakesPart reports whether a candidate follows the phase of a migration: it does so in modes
// auto and dual.
func (c Candidate) TakesPart() bool {
	return c.Mode == string(multilock.Auto) || c.Mode == string(multilock.Dual)
}

// Present returns the candidates whose pods are not known to be gone.
func Present(all []Candidate) []Candidate {
	return slices.DeleteFunc(slices.Clone(all), func(c Candidate) bool { return c.PodState == Gone })
}

// ByZone returns the candidates sorted by zone, then by identity.
func ByZone(all []Candidate) []Candidate {
	return slices.SortedFunc(slices.Values(all), func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Identity, b.Identity))
	})
}

// ZonesOf returns the zones of candidates, sorted, and of how many the zone is not known: each of those
// may be in any zone.
func ZonesOf(all []Candidate) (zones []string, unknown int) {
	for _, c := range all {
		if c.Zone == "" {
			unknown++
			continue
		}
		zones = append(zones, c.Zone)
	}
	slices.Sort(zones)
	return slices.Compact(zones), unknown
}

// WorkloadOf names what runs a pod, such as "Deployment my-operator", by the pod alone: the parts of
// a rollout have one name. It is empty if that is not known.
func WorkloadOf(pod *corev1.Pod) string {
	ref := metav1.GetControllerOf(pod)
	if ref == nil || ref.Kind == "Node" { // a static pod is its node's
		return ""
	}
	hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if name, is := strings.CutSuffix(ref.Name, "-"+hash); is && hash != "" {
		return "Deployment " + name
	}
	return ref.Kind + " " + ref.Name
}
