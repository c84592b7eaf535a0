// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// FuzzTerminated reads any JSON that decodes as a pod. Only an end that names the very
// container instance, at or after the lock was acquired, is proof. A process accepts a
// container's ID as its own only if that instance runs, and began no earlier than the
// process.
func FuzzTerminated(f *testing.F) {
	f.Add([]byte(`{"status":{"containerStatuses":[{"name":"m","state":{"terminated":{"containerID":"c1","finishedAt":"2026-07-01T10:00:00Z"}}}]}}`), "c1", int64(1_782_900_000))
	f.Add([]byte(`{"status":{"containerStatuses":[{"state":{"terminated":{"finishedAt":"2026-07-01T10:00:00Z"}},"containerID":"c1"}]}}`), "", int64(0))
	f.Add([]byte(`{"status":{"phase":"Failed","initContainerStatuses":[{"lastState":{"terminated":{"containerID":"c1","finishedAt":"9999-12-31T23:59:59Z","reason":"ContainerStatusUnknown"}}}]}}`), "c1", int64(1_782_900_000))
	f.Add([]byte(`{"spec":{"containers":[{"name":"m"}]},"status":{"containerStatuses":[{"name":"m","containerID":"c2","state":{"running":{"startedAt":"2026-07-01T10:00:00Z"}}}]}}`), "c1", int64(1_782_900_000))
	f.Add([]byte(`{"spec":{"shareProcessNamespace":true,"containers":[{}]},"status":{"containerStatuses":[{"containerID":"c2","state":{"running":{}}}]}}`), "c2", int64(0))
	f.Fuzz(func(t *testing.T, b []byte, id string, since int64) {
		var pod corev1.Pod
		if json.Unmarshal(b, &pod) != nil {
			t.Skip("no pod")
		}
		at := time.Unix(since, 0)
		ends, runs := map[string]bool{}, map[string]bool{}
		for _, s := range append(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses...) {
			for _, end := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
				if end != nil && end.ContainerID != "" && !end.FinishedAt.Time.Before(at) {
					ends[end.ContainerID] = true
				}
			}
			if s.State.Running != nil && !s.State.Running.StartedAt.Time.Before(at) {
				runs[s.ContainerID] = true
			}
		}
		if Terminated(&pod, id, at) != ends[id] {
			t.Errorf("container %q has ended: %v", id, !ends[id])
		}
		own, err := OwnContainer(&pod, "", at)
		if (err == nil) != (own != "") || err == nil && (!runs[own] || pod.Spec.HostPID) {
			t.Errorf("this container is %q, %v", own, err)
		}
	})
}

// FuzzAge reads any of proc(5)'s files: no age is negative.
func FuzzAge(f *testing.F) {
	f.Add("7 (a b) c) S"+strings.Repeat(" 0", 18)+" 500 0", "15.25 3.00")
	f.Add("7 (a) S"+strings.Repeat(" 0", 18)+" 4611686018427387903", "1e300 0")
	f.Add("", "-1")
	f.Fuzz(func(t *testing.T, stat, uptime string) {
		if age, err := ageOf(stat, uptime); err == nil && age < 0 {
			t.Errorf("%q and %q are read as an age of %v", stat, uptime, age)
		}
	})
}
