// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	corev1 "k8s.io/api/core/v1"
)

// Terminated reports whether the kubelet says that the container instance of that ID has
// ended, now or as the last one before the present one, in a process that held its lock since
// acquired. Nothing else is proof: not a pod that is gone, failed or is to be deleted, nor a
// container that waits, is unknown, or is another.
//
// The ID must be in the report of the end itself, as it is when the container runtime has
// reported the end. If the kubelet finds no trace of a container it reports an end too
// (reason ContainerStatusUnknown, Completed for an init container), and leaves the ID of that
// report empty.
//
// The end must have come after the lock was acquired, both by the clock of the holder's node:
// an earlier end is another process's, see [OwnContainer]. Because the end is reported in
// whole seconds, rounded down, the first second of a term proves nothing.
func Terminated(pod *corev1.Pod, containerID string, acquired time.Time) bool {
	proves := func(end *corev1.ContainerStateTerminated) bool {
		return end != nil && containerID != "" && end.ContainerID == containerID && !end.FinishedAt.Time.Before(acquired)
	}
	all := slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses)
	return slices.ContainsFunc(all, func(s corev1.ContainerStatus) bool {
		return proves(s.State.Terminated) || proves(s.LastTerminationState.Terminated)
	})
}

// errNotYet says that the kubelet's report may still be of an earlier instance.
var errNotYet = errors.New("the kubelet has not reported this instance of the container yet")

// OwnContainer returns the ID of the container instance that a process runs in, from the
// status of its pod and the process's start time by the wall clock. container is its name;
// empty means the pod's only one. If the status may show the ID later, the error can be
// retried (it is not a backoff.PermanentError).
//
// The status lags behind. After a restart it shows the former instance as running for a
// while. A holder that noted that ID would be declared dead by the report of the former
// instance's end, which comes next: two leaders. So a process does not accept an instance
// that started before it, in seconds, as its own. Within the second of its start the instance
// may still be the former one; but that one ended before this process began, let alone
// acquired a lock, and [Terminated] does not count such an end. Both are readings of the
// node's clock: only a clock that is set back, during a restart, by more than the former
// instance has lived can deceive it. The comparison only ever withholds an ID.
//
// It also returns no ID if a container's end need not be the end of its processes: the pod's
// containers share one PID namespace, or use the node's.
func OwnContainer(pod *corev1.Pod, container string, start time.Time) (string, error) {
	if pod.Spec.HostPID || pod.Spec.ShareProcessNamespace != nil && *pod.Spec.ShareProcessNamespace {
		return "", backoff.Permanent(errors.New("the container has no PID namespace of its own, so that its processes may outlive it"))
	}
	container, statuses, err := whichContainer(pod, container)
	if err != nil {
		return "", backoff.Permanent(err)
	}
	for _, status := range statuses {
		running := status.State.Running
		if status.Name != container || running == nil || status.ContainerID == "" {
			continue
		}
		if running.StartedAt.Time.Before(start.Truncate(time.Second)) {
			return "", fmt.Errorf("%w: the one it shows was started at %v, this process at %v", errNotYet, running.StartedAt.UTC(), start.UTC())
		}
		return status.ContainerID, nil
	}
	return "", errNotYet
}

// MountedContainer returns the name of the container that a process of that pod runs in, from
// its mounts as proc(5) lists them. The kubelet mounts each container's termination log from a
// directory that is named after the pod's UID and the container. It is empty if there is no such
// mount, as in a virtual machine, or if mounts are of several containers.
func MountedContainer(mounts, podUID string) string {
	const root = 3 // the field that tells from where in its file system a mount comes
	var seen []string
	for line := range strings.Lines(mounts) {
		if fields := strings.Fields(line); len(fields) > root {
			_, below, _ := strings.Cut(fields[root], "/pods/"+podUID+"/containers/")
			name, _, _ := strings.Cut(below, "/")
			seen = append(seen, name)
		}
	}
	return common(seen)
}

// common returns the one text that is among texts apart from empty ones; none if there are several.
func common(texts []string) string {
	texts = slices.DeleteFunc(texts, func(t string) bool { return t == "" })
	if len(texts) == 0 || slices.ContainsFunc(texts, func(t string) bool { return t != texts[0] }) {
		return ""
	}
	return texts[0]
}

// MountedPod returns the UID of the pod that a process runs in, from its mounts as proc(5) lists them:
// the kubelet mounts /etc/hosts and the termination log from a directory that is named after it. It is
// empty if there is no such mount, or if mounts are of several pods.
func MountedPod(mounts string) string {
	const target, root = 4, 3
	var seen []string
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if len(fields) <= target || fields[target] != "/etc/hosts" && fields[target] != "/dev/termination-log" {
			continue
		}
		_, below, _ := strings.Cut(fields[root], "/pods/")
		if uid, rest, _ := strings.Cut(below, "/"); rest == "etc-hosts" || strings.HasPrefix(rest, "containers/") {
			seen = append(seen, uid)
		}
	}
	return common(seen)
}

// Sandboxed says in what a process runs that is not a container on its node's kernel, from its mounts as
// proc(5) lists them; empty if nothing shows that it does. What a virtual machine or a sandbox in the
// node's user space leaves behind when it is cut off, nobody here has tried.
//
// The files that the kubelet mounts come over 9p in gVisor, and over 9p or virtiofs in Kata Containers,
// whose share is named kataShared. On the node's kernel they are bind mounts of the node's file systems.
func Sandboxed(mounts string) string {
	const target, root = 4, 3
	for line := range strings.Lines(mounts) {
		before, after, found := strings.Cut(line, " - ")
		fields, source := strings.Fields(before), strings.Fields(after)
		if !found || len(fields) <= target || len(source) < 2 {
			continue
		}
		if source[1] == "kataShared" || strings.Contains(fields[root], "/kata-containers/shared/") {
			return "a virtual machine of Kata Containers"
		}
		ours := slices.Contains([]string{"/", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/dev/termination-log"}, fields[target])
		if ours && (source[0] == "9p" || source[0] == "virtiofs") {
			return "a sandbox or a virtual machine, whose files come over " + source[0]
		}
	}
	return ""
}

// whichContainer returns the container's name, and the statuses that include it. Of the init
// containers only those count that run on beside the others.
func whichContainer(pod *corev1.Pod, name string) (string, []corev1.ContainerStatus, error) {
	statuses := map[string][]corev1.ContainerStatus{}
	for _, c := range pod.Spec.Containers {
		statuses[c.Name] = pod.Status.ContainerStatuses
	}
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			statuses[c.Name] = pod.Status.InitContainerStatuses
		}
	}
	if name == "" && len(statuses) == 1 {
		for name := range statuses {
			return name, statuses[name], nil
		}
	}
	found, ok := statuses[name]
	switch {
	case name == "":
		return "", nil, fmt.Errorf("the pod has %d containers: set CONTAINER_NAME to the name of this one", len(statuses))
	case !ok:
		return "", nil, fmt.Errorf("the pod has no container %q that this process could run in: CONTAINER_NAME is wrong", name)
	}
	return name, found, nil
}
