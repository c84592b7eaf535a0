// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import "strings"

// mountedContainer returns the name of the container that a process of that pod runs in, from
// its mounts as proc(5) lists them. The kubelet mounts each container's termination log from a
// directory that is named after the pod's UID and the container. It is empty if there is no such
// mount, as in a virtual machine, or if mounts are of several containers.
func mountedContainer(mounts, podUID string) string {
	return common(mounts, func(root, _ string) string {
		_, below, _ := strings.Cut(root, "/pods/"+podUID+"/containers/")
		name, _, _ := strings.Cut(below, "/")
		return name
	})
}

// mountedPod returns the UID of the pod that a process runs in, from its mounts as proc(5) lists them:
// the kubelet mounts /etc/hosts and the termination log from a directory that is named after it. It is
// empty if there is no such mount, or if mounts are of several pods.
func mountedPod(mounts string) string {
	return common(mounts, func(root, target string) string {
		_, below, _ := strings.Cut(root, "/pods/")
		uid, rest, _ := strings.Cut(below, "/")
		if target != "/etc/hosts" && target != "/dev/termination-log" || rest != "etc-hosts" && !strings.HasPrefix(rest, "containers/") {
			return ""
		}
		return uid
	})
}

// common returns the one name that mounts have, by the root of each in its file system and its target; none
// if they have several. A mount may have no name.
func common(mounts string, name func(root, target string) string) (one string) {
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		switch n := name(fields[3], fields[4]); {
		case one == "":
			one = n
		case n != "" && n != one:
			return ""
		}
	}
	return one
}
