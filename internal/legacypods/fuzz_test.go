// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package legacypods

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/zonelect/zonelect/internal/apitest"
)

// FuzzJudge judges any JSON that decodes as a pod, with any observation: the pod has
// ended only if it is finished, none of its containers runs and its kubelet is alive, and
// it counts as gone only after the grace has passed.
func FuzzJudge(f *testing.F) {
	const evicted = `{"metadata":{"uid":"u"},"status":{"phase":"Failed"},` +
		`"spec":{"nodeName":"n","containers":[{}],"terminationGracePeriodSeconds":9223372036854775807}}`
	f.Add([]byte(evicted), uint8(0x1f), int64(time.Second), int64(time.Minute), int64(time.Minute))
	f.Add(apitest.Marshal(podWith(terminating)), uint8(7), int64(time.Hour), int64(0), int64(time.Minute))
	f.Add(apitest.Marshal(podWith(phase(corev1.PodSucceeded, ""))), uint8(0x3f), int64(-1), int64(-1), int64(-1))
	f.Fuzz(func(t *testing.T, b []byte, bits uint8, silent, finishedFor, grace int64) {
		var pod corev1.Pod
		if json.Unmarshal(b, &pod) != nil {
			t.Skip("no pod")
		}
		bit := func(n int) bool { return bits&(1<<n) != 0 }
		s := Observation{
			HeartKnown: bit(0), Beats: bit(1), OthersBeat: bit(2),
			SilentFor: time.Duration(silent), FinishedFor: time.Duration(finishedFor), Grace: time.Duration(grace),
		}
		v := Judge(&pod, s)
		byTime := s.Grace > 0 && pod.Spec.NodeName != "" && s.HeartKnown && s.OthersBeat && s.SilentFor >= s.Grace
		switch {
		case v.MayLead && v.Presumed, v.Presumed && !byTime:
			t.Fatalf("%+v after %+v", v, s)
		case v.MayLead || v.Presumed || pod.Spec.NodeName == "" && finished(&pod):
			return
		}
		kubelet := s.HeartKnown && s.Beats
		if !finished(&pod) || runs(&pod) || !kubelet {
			t.Fatalf("a pod in phase %s has ended by %+v: %+v", pod.Status.Phase, s, v)
		}
		if g := pod.Spec.TerminationGracePeriodSeconds; g != nil && !reported(&pod) && s.FinishedFor.Seconds() < float64(min(*g, mostGrace)) {
			t.Fatalf("of a grace of %ds %v have passed, and it counts as ended", *g, s.FinishedFor)
		}
	})
}
