// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"slices"
	"strings"
)

// mountedContainer returns the name of the container that a process of that pod runs in, from
// its mounts as proc(5) lists them. The kubelet mounts each container's termination log from a
// directory that is named after the pod's UID and the container. It is empty if there is no such
// mount, as in a virtual machine, or if mounts are of several containers.
func mountedContainer(mounts, podUID string) string {
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

// mountedPod returns the UID of the pod that a process runs in, from its mounts as proc(5) lists them:
// the kubelet mounts /etc/hosts and the termination log from a directory that is named after it. It is
// empty if there is no such mount, or if mounts are of several pods.
func mountedPod(mounts string) string {
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
