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
	evicted, pending := phase(corev1.PodFailed, "Evicted"), phase(corev1.PodPending, "")
	beats := Observation{HeartKnown: true, Beats: true, SilentFor: 3 * time.Second, Grace: time.Minute}
	unseen := Observation{HeartKnown: true, Grace: time.Minute}
	sight := func(base Observation, change func(*Observation)) Observation { change(&base); return base }
	// dead observes a node that has been silent for long, by a candidate that saw it beat before.
	dead := sight(beats, func(s *Observation) {
		s.SilentFor, s.OthersBeat = 61*time.Second, true
	})
	silentFor := func(base Observation, d time.Duration) Observation { base.SilentFor = d; return base }
	finishedFor := func(d time.Duration) Observation { return sight(beats, func(s *Observation) { s.FinishedFor = d }) }
	failedPod := podWith(failed, containers(ended))

	type verdict struct {
		state             State
		mayLead, presumed bool
	}
	mayLead := func(s State) verdict { return verdict{s, true, false} }
	hasEnded := func(s State) verdict { return verdict{s, false, false} }
	presumed := func(s State) verdict { return verdict{s, false, true} }
	for name, tc := range map[string]struct {
		pod   *corev1.Pod
		sight Observation
		want  verdict
		says  string
	}{
		"alive":                   {podWith(), beats, mayLead(Alive), ""},
		"not scheduled":           {podWith(pending, containers(), unscheduled), Observation{}, mayLead(Alive), "will start"},
		"unknown":                 {podWith(phase(corev1.PodUnknown, "")), beats, mayLead(Alive), ""},
		"its container has ended": {podWith(containers(ended)), beats, mayLead(Alive), ""},
		"its container restarts":  {podWith(containers(waiting)), beats, mayLead(Alive), ""},
		"terminating":             {podWith(terminating), beats, mayLead(Terminating), "terminating"},
		"terminating, none runs":  {podWith(terminating, containers(ended)), beats, mayLead(Terminating), ""},

		"completed":                 {podWith(succeeded, containers(ended)), beats, hasEnded(Completed), ""},
		"failed":                    {failedPod, beats, hasEnded(Completed), ""},
		"failed, never scheduled":   {podWith(failed, containers(), unscheduled), Observation{}, hasEnded(Completed), ""},
		"completed, a container on": {podWith(succeeded, containers(ended, running)), beats, mayLead(Completed), "still runs"},
		"failed, a sidecar on": {podWith(failed, containers(ended), func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{State: running}}
		}), beats, mayLead(Completed), "still runs"},
		"failed, debugged": {podWith(failed, containers(ended), func(p *corev1.Pod) {
			p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{State: running}}
		}), beats, mayLead(Completed), "still runs"},

		// A kubelet before 1.24 writes Failed before it kills.
		"evicted, none left over":  {podWith(evicted, containers()), beats, mayLead(Completed), "may not have killed"},
		"... for its grace period": {podWith(evicted, containers()), finishedFor(39 * time.Second), mayLead(Completed), "may not have killed"},
		"... and longer":           {podWith(evicted, containers()), finishedFor(40 * time.Second), hasEnded(Completed), ""},
		"... than a long one": {podWith(evicted, containers(), func(p *corev1.Pod) {
			p.Spec.TerminationGracePeriodSeconds = new(int64)
			*p.Spec.TerminationGracePeriodSeconds = 100
		}), finishedFor(109 * time.Second), mayLead(Completed), ""},
		"failed, one of two left out": {podWith(failed, containers(ended), func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "other"})
		}), beats, mayLead(Completed), "may not have killed"},

		// Not only the kubelet writes Failed: the pod collector does too.
		"failed, no beat was seen yet": {failedPod, unseen, mayLead(Completed), "not seen to be alive"},
		"failed, the last beat is old": {failedPod, silentFor(beats, 40*time.Second), mayLead(Unreachable), "not seen to be alive"},
		"failed, nothing may be read":  {failedPod, Observation{Grace: time.Minute}, mayLead(Completed), "get on leases"},
		"collected, node gone":         {failedPod, silentFor(unseen, 50*time.Second), mayLead(Unreachable), "not seen to be alive"},
		"collected, node silent":       {podWith(failed), dead, presumed(Unreachable), "silent for 1m1s"},

		// M11.
		"node silent for the grace":   {podWith(), dead, presumed(Unreachable), "may run on"},
		"... while it terminates":     {podWith(terminating), dead, presumed(Unreachable), ""},
		"... not quite":               {podWith(), silentFor(dead, time.Minute-1), mayLead(Unreachable), "does not say"},
		"... and so are most others":  {podWith(), sight(dead, func(s *Observation) { s.OthersBeat = false }), mayLead(Unreachable), ""},
		"... and the rule is off":     {podWith(), sight(dead, func(s *Observation) { s.Grace = 0 }), mayLead(Unreachable), ""},
		"... and the rule negative":   {podWith(), sight(dead, func(s *Observation) { s.Grace = -1 }), mayLead(Unreachable), ""},
		"heartbeats unreadable":       {podWith(), sight(dead, func(s *Observation) { s.HeartKnown = false }), mayLead(Alive), ""},
		"... of a pod without a node": {podWith(unscheduled), dead, mayLead(Alive), ""},
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
