// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package legacypods counts the pods of an operator that may still lead by the lock of leader-for-life:
// it finds them, and judges by what the API says of them and of their nodes whether they have ended (M4,
// M11). It decides nothing else.
package legacypods

import (
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// State is the state of a legacy pod.
type State string

// The states of a legacy pod. The state alone does not decide whether the pod may lead.
const (
	Alive       State = "alive" // or not started yet
	Terminating State = "terminating"
	Completed   State = "completed"   // Succeeded or Failed
	Unreachable State = "unreachable" // its node is silent
)

// Verdict is the judgment of one legacy pod.
type Verdict struct {
	State State
	// MayLead says that nothing proves that its process has ended.
	MayLead bool
	// Presumed says that MayLead is false without such proof, because the node has been
	// silent for the grace (M11).
	Presumed bool
	Why      string // the reason, in words; empty for a pod that has ended
}

// Observation is what one candidate has itself seen of a pod and its node, by its own
// clock. The zero value has seen nothing.
type Observation struct {
	// HeartKnown says that the node has heartbeats, which are the renewals of its kubelet's
	// Lease, and that the candidate could read them. Then Beats says that the Lease was seen to
	// change, and SilentFor for how long it has not changed since.
	HeartKnown bool
	Beats      bool
	SilentFor  time.Duration
	// OthersBeat says that at least half of all nodes were seen to beat just now, so that
	// neither the API nor the connection to it is at fault.
	OthersBeat bool

	// FinishedFor is how long the pod has been seen as Succeeded or Failed.
	FinishedFor time.Duration
	// Grace is that of M11; zero or less turns the rule off.
	Grace time.Duration
}

// The defaults of a kubelet: it renews its Lease every ten seconds, and counts as alive
// for forty.
const (
	heartbeat = 10 * time.Second
	missed    = heartbeat + heartbeat/2
	believed  = 40 * time.Second
)

// killSlack is how much longer than its grace period a pod may take to end.
const killSlack = 10 * time.Second

// Judge says whether a pod that exists may still lead. It is pure.
//
// A pod has ended if it is Succeeded or Failed, its kubelet is alive, and none of its
// containers runs any longer. The kubelet matters because the pod
// collector also writes Failed if a node is dead or cut off. A kubelet before Kubernetes
// 1.24 writes Failed before it has killed an evicted pod, and may leave out the
// containers: then the pod's grace period must have passed too.
//
// A pod that has not ended may lead, whatever its status says: a terminating pod still
// runs, and a kubelet restarts a container that has terminated. M11 is the exception: the
// pod's node has been silent for the grace. Of a node that is gone, or that an administrator has
// declared out of service, Kubernetes itself deletes the pods.
func Judge(pod *corev1.Pod, s Observation) Verdict {
	if pod.Spec.NodeName == "" {
		s = Observation{} // it has no node
	}
	v := Verdict{MayLead: true}
	v.State, v.Why = stateOf(pod, s)
	if finished(pod) {
		if v.Why = unproven(pod, s); v.Why == "" {
			return Verdict{State: Completed}
		}
	}
	if s.silent() {
		v.MayLead, v.Presumed = false, true
		v.Why = fmt.Sprintf("its node has been silent for %v: it counts as gone, though it may run on where the API cannot be reached",
			s.SilentFor.Round(time.Second))
	}
	return v
}

// stateOf returns the state of a pod, and what that says of its process unless it is finished or
// presumed gone.
func stateOf(pod *corev1.Pod, s Observation) (state State, why string) {
	switch {
	case s.silent(), s.HeartKnown && s.SilentFor >= believed:
		return Unreachable, "its node is silent, which does not say that the pod has ended"
	case finished(pod):
		return Completed, ""
	case pod.DeletionTimestamp != nil:
		return Terminating, "it is terminating, and runs until its object is gone"
	case pod.Spec.NodeName == "":
		return Alive, "it is not scheduled yet and will start"
	default:
		return Alive, "it is there"
	}
}

// silent reports whether the node has been silent long enough for M11.
func (s Observation) silent() bool {
	return s.Grace > 0 && s.HeartKnown && s.SilentFor >= s.Grace && s.OthersBeat
}

// lives reports whether the kubelet is alive, so that its word on its pods counts.
func (s Observation) lives() bool { return s.Beats && s.SilentFor < believed }

// unproven says why a pod that is Succeeded or Failed may still run, or returns "".
func unproven(pod *corev1.Pod, s Observation) string {
	phase := pod.Status.Phase
	switch {
	case pod.Spec.NodeName == "":
		return "" // it never reached a kubelet
	case runs(pod):
		return fmt.Sprintf("it is %s, but a container of it still runs", phase)
	case !s.HeartKnown:
		return fmt.Sprintf("it is %s, but without its node's heartbeats nobody knows whether its kubelet says so: "+
			"remove the pod, or grant the verb get on leases in namespace %s", phase, corev1.NamespaceNodeLease)
	case !s.lives():
		return fmt.Sprintf("it is %s, but its kubelet was not seen to be alive, and others write that, too", phase)
	case !reported(pod) && s.FinishedFor < gracePeriod(pod)+killSlack:
		return fmt.Sprintf("it is %s, but its kubelet does not say what its containers do, and may not have killed them yet", phase)
	}
	return ""
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// runs reports whether any container's status is running.
func runs(pod *corev1.Pod) bool {
	all := slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses)
	return slices.ContainsFunc(all, func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
}

// reported reports whether the kubelet says that every container has ended.
func reported(pod *corev1.Pod) bool {
	ended := 0
	for _, container := range pod.Status.ContainerStatuses {
		if container.State.Terminated != nil {
			ended++
		}
	}
	return ended >= len(pod.Spec.Containers)
}

// mostGrace, in seconds, is practically forever, and does not overflow a duration.
const mostGrace = math.MaxInt32

func gracePeriod(pod *corev1.Pod) time.Duration {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(min(*s, mostGrace)) * time.Second
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}
