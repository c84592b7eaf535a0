// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package legacypods

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podWith returns pod p on node n1 with one running container, after changes.
func podWith(changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Name, pod.Namespace, pod.UID = "p", "ns", "uid-p"
	pod.Spec.NodeName = "n1"
	pod.Spec.Containers = []corev1.Container{{Name: "main"}}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: running}}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

var (
	running = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	ended   = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	waiting = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
)

func phase(phase corev1.PodPhase, reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = phase, reason }
}

func containers(states ...corev1.ContainerState) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = nil
		for _, state := range states {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{State: state})
		}
	}
}

func terminating(p *corev1.Pod) {
	now := metav1.Now()
	p.DeletionTimestamp = &now
}

func unscheduled(p *corev1.Pod) { p.Spec.NodeName = "" }

func uid(uid string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.UID = types.UID(uid) } }

func TestEachPodIsJudgedByWhatProvesItsEnd(t *testing.T) {
	failed, succeeded := phase(corev1.PodFailed, ""), phase(corev1.PodSucceeded, "")
	evicted := phase(corev1.PodFailed, "Evicted")
	beats := Observation{HeartKnown: true, Beats: true, SilentFor: 3 * time.Second, Grace: time.Minute}
	unseen := Observation{HeartKnown: true, Grace: time.Minute}
	sight := func(base Observation, change func(*Observation)) Observation { change(&base); return base }
	// dead observes a node that has been silent for long, by a candidate that saw it beat
	// before.
	dead := sight(beats, func(s *Observation) {
		s.SilentFor, s.OthersBeat = 61*time.Second, true
	})

	type verdict struct {
		state             State
		mayLead, presumed bool
	}
	for name, tc := range map[string]struct {
		pod   *corev1.Pod
		sight Observation
		want  verdict
		says  string
	}{
		"alive":                      {podWith(), beats, verdict{Alive, true, false}, ""},
		"not scheduled":              {podWith(phase(corev1.PodPending, ""), containers(), unscheduled), Observation{}, verdict{Alive, true, false}, "will start"},
		"unknown":                    {podWith(phase(corev1.PodUnknown, "")), beats, verdict{Alive, true, false}, ""},
		"its container has ended":    {podWith(containers(ended)), beats, verdict{Alive, true, false}, ""},
		"its container is restarted": {podWith(containers(waiting)), beats, verdict{Alive, true, false}, ""},
		"terminating":                {podWith(terminating), beats, verdict{Terminating, true, false}, "terminating"},
		"terminating, container gone": {podWith(terminating, containers(ended)), beats,
			verdict{Terminating, true, false}, ""},

		"completed":                 {podWith(succeeded, containers(ended)), beats, verdict{Completed, false, false}, ""},
		"failed":                    {podWith(failed, containers(ended)), beats, verdict{Completed, false, false}, ""},
		"failed, never scheduled":   {podWith(failed, containers(), unscheduled), Observation{}, verdict{Completed, false, false}, ""},
		"completed, a container on": {podWith(succeeded, containers(ended, running)), beats, verdict{Completed, true, false}, "still runs"},
		"failed, a sidecar on": {podWith(failed, containers(ended), func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{State: running}}
		}), beats, verdict{Completed, true, false}, "still runs"},
		"failed, debugged": {podWith(failed, containers(ended), func(p *corev1.Pod) {
			p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{State: running}}
		}), beats, verdict{Completed, true, false}, "still runs"},

		// A kubelet before 1.24 writes Failed before it kills.
		"evicted, containers left out": {podWith(evicted, containers()), beats, verdict{Completed, true, false}, "may not have killed"},
		"... for its grace period": {podWith(evicted, containers()), sight(beats, func(s *Observation) { s.FinishedFor = 39 * time.Second }),
			verdict{Completed, true, false}, "may not have killed"},
		"... and longer": {podWith(evicted, containers()), sight(beats, func(s *Observation) { s.FinishedFor = 40 * time.Second }),
			verdict{Completed, false, false}, ""},
		"... than a long one": {podWith(evicted, containers(), func(p *corev1.Pod) {
			p.Spec.TerminationGracePeriodSeconds = new(int64)
			*p.Spec.TerminationGracePeriodSeconds = 100
		}), sight(beats, func(s *Observation) { s.FinishedFor = 109 * time.Second }), verdict{Completed, true, false}, ""},
		"failed, one of two left out": {podWith(failed, containers(ended), func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "other"})
		}), beats, verdict{Completed, true, false}, "may not have killed"},

		// Not only the kubelet writes Failed.
		"failed, no beat was seen yet": {podWith(failed, containers(ended)), unseen, verdict{Completed, true, false}, "not seen to be alive"},
		"failed, the last beat is old": {podWith(failed, containers(ended)), sight(beats, func(s *Observation) { s.SilentFor = 40 * time.Second }),
			verdict{Unreachable, true, false}, "not seen to be alive"},
		"failed, no heartbeats may be read": {podWith(failed, containers(ended)), Observation{Grace: time.Minute},
			verdict{Completed, true, false}, "get on leases"},
		"failed by the pod collector, node gone": {podWith(failed, containers(ended)),
			Observation{HeartKnown: true, SilentFor: 50 * time.Second, Grace: time.Minute}, verdict{Unreachable, true, false}, "not seen to be alive"},
		"failed by the pod collector, node silent": {podWith(failed), dead, verdict{Unreachable, false, true}, "silent for 1m1s"},

		// M11.
		"node silent for the grace":    {podWith(), dead, verdict{Unreachable, false, true}, "may run on"},
		"... while it terminates":      {podWith(terminating), dead, verdict{Unreachable, false, true}, ""},
		"... not quite":                {podWith(), sight(dead, func(s *Observation) { s.SilentFor = time.Minute - 1 }), verdict{Unreachable, true, false}, "does not say"},
		"... and so are most others":   {podWith(), sight(dead, func(s *Observation) { s.OthersBeat = false }), verdict{Unreachable, true, false}, ""},
		"... and the rule is off":      {podWith(), sight(dead, func(s *Observation) { s.Grace = 0 }), verdict{Unreachable, true, false}, ""},
		"... and the rule is negative": {podWith(), sight(dead, func(s *Observation) { s.Grace = -1 }), verdict{Unreachable, true, false}, ""},
		"heartbeats may not be read":   {podWith(), sight(dead, func(s *Observation) { s.HeartKnown = false }), verdict{Alive, true, false}, ""},
		"... of a pod without a node":  {podWith(unscheduled), dead, verdict{Alive, true, false}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := Judge(tc.pod, tc.sight)
			stands := got.MayLead || got.Presumed
			if (verdict{got.State, got.MayLead, got.Presumed}) != tc.want || !strings.Contains(got.Why, tc.says) || (got.Why != "") != stands {
				t.Errorf("got %+v\nwant %+v, %q", got, tc.want, tc.says)
			}
		})
	}
}
