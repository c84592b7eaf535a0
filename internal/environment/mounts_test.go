// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"strings"
	"testing"
)

// mountsOf is what proc(5) lists in a container.
func mountsOf(podUID, container string) string {
	pod := "/var/lib/kubelet/pods/" + podUID
	return `2100 1956 0:312 / / rw,relatime master:512 - overlay overlay rw,lowerdir=/var/lib/containerd/1/fs
2110 2100 259:1 ` + pod + `/etc-hosts /etc/hosts rw,relatime - ext4 /dev/root rw
2111 2100 259:1 ` + pod + `/containers/` + container + `/0f4a3c5d /dev/termination-log rw,relatime - ext4 /dev/root rw
2112 2100 0:300 / /var/run/secrets/kubernetes.io/serviceaccount ro,relatime - tmpfs tmpfs rw,size=65536k
`
}

// TestAContainersNameIsReadFromTheKubeletsMounts, where the kubelet's directory is a file system
// of its own, too.
func TestAContainersNameIsReadFromTheKubeletsMounts(t *testing.T) {
	for mounts, want := range map[string]string{
		mountsOf("u", "main"): "main",
		strings.ReplaceAll(mountsOf("u", "main"), "/var/lib/kubelet", ""): "main",
		mountsOf("u", "main") + mountsOf("u", "main"):                     "main",
		mountsOf("u", "main") + mountsOf("u", "other"):                    "", // the node's directories are mounted too
		mountsOf("another", "main"):                                       "",
		mountsOf("u", ""):                                                 "",
		"1 2 3\n\n":                                                       "",
		"":                                                                "",
	} {
		if got := mountedContainer(mounts, "u"); got != want {
			t.Errorf("%q, want %q: %s", got, want, mounts)
		}
	}
}

func TestAPodsUIDIsReadFromTheKubeletsMounts(t *testing.T) {
	hosts := func(uid string) string {
		return "1 2 259:1 /var/lib/kubelet/pods/" + uid + "/etc-hosts /etc/hosts rw - ext4 /dev/root rw\n"
	}
	for mounts, want := range map[string]string{
		mountsOf("u", "main"):                     "u",
		hosts("u"):                                "u",
		hosts("u") + hosts("u"):                   "u",
		hosts("u") + mountsOf("v", "main"):        "",
		"1 2 0:1 /pods/u/volumes/x /data rw":      "", // of a pod on the node, as a program that looks at it has
		"1 2 0:1 /pods/u/volumes/x /etc/hosts rw": "",
		"1 2\n\n": "",
		"":        "",
	} {
		if got := mountedPod(mounts); got != want {
			t.Errorf("%q, want %q: %s", got, want, mounts)
		}
	}
}
