// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/locks"
)

// at is a moment of a pod's life, in seconds and fractions of them.
func at(seconds float64) time.Time {
	return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

// told is a time as the API reports it: in whole seconds, rounded down.
func told(seconds float64) metav1.Time { return metav1.NewTime(at(seconds).Truncate(time.Second)) }

func ended(id string, finished float64) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: id, ExitCode: 2, FinishedAt: told(finished)}}
}

func running(started float64) corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: told(started)}}
}

func statusOf(name, id string, now, last corev1.ContainerState) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, ContainerID: id, State: now, LastTerminationState: last}
}

// TestOnlyAReportOfThatVeryEndIsProof: the process acquired its lock at second
// 10, in container c2.
func TestOnlyAReportOfThatVeryEndIsProof(t *testing.T) {
	none := corev1.ContainerState{}
	one := func(s corev1.ContainerStatus) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{s}}
	}
	noTrace := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "ContainerStatusUnknown", ExitCode: 137, FinishedAt: told(20)}}
	for name, test := range map[string]struct {
		status corev1.PodStatus
		dead   bool
	}{
		"it has ended":                         {one(statusOf("main", "c2", ended("c2", 20), none)), true},
		"the next one runs":                    {one(statusOf("main", "c3", running(21), ended("c2", 20))), true},
		"the next one waits":                   {one(statusOf("main", "c2", corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}, ended("c2", 20))), true},
		"the next one has ended too":           {one(statusOf("main", "c3", ended("c3", 22), ended("c2", 20))), true},
		"it has ended well":                    {one(statusOf("main", "c2", corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: "c2", FinishedAt: told(20)}}, none)), true},
		"a sidecar has ended":                  {corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{statusOf("main", "c2", ended("c2", 20), none)}}, true},
		"the pod has failed with it":           {corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{statusOf("main", "c2", ended("c2", 20), none)}}, true},
		"it runs":                              {one(statusOf("main", "c2", running(9), ended("c1", 8))), false},
		"it runs, though the pod has failed":   {corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{statusOf("main", "c2", running(9), none)}}, false},
		"the pod has failed, nothing is known": {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "NodeLost"}, false},
		"nothing is known":                     {corev1.PodStatus{Phase: corev1.PodUnknown}, false},
		"it waits":                             {one(statusOf("main", "c2", corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}, none)), false},
		"no state at all":                      {one(statusOf("main", "c2", none, none)), false},
		"another has ended":                    {one(statusOf("main", "c3", ended("c3", 20), ended("c1", 8))), false},
		"no trace of it":                       {one(statusOf("main", "c2", noTrace, noTrace)), false},
		"an end without a time":                {one(statusOf("main", "c2", corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: "c2"}}, none)), false},
		"it ended before it had the lock":      {one(statusOf("main", "c2", ended("c2", 9.9), none)), false},
		"it ended in the second it had it":     {one(statusOf("main", "c2", ended("c2", 10.9), none)), false},
		"a second later":                       {one(statusOf("main", "c2", ended("c2", 11), none)), true},
		"an ephemeral one has ended":           {corev1.PodStatus{EphemeralContainerStatuses: []corev1.ContainerStatus{statusOf("debug", "c2", ended("c2", 20), none)}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Status: test.status}
			if got := Terminated(pod, "c2", at(10.3)); got != test.dead {
				t.Errorf("dead is %v", got)
			}
			now := metav1.Now()
			pod.DeletionTimestamp = &now
			if got := Terminated(pod, "c2", at(10.3)); got != test.dead {
				t.Errorf("dead is %v once the pod is to be deleted", got)
			}
			if Terminated(pod, "", at(10.3)) {
				t.Error("dead, though its container is not known")
			}
		})
	}
}

// TestAnInstanceIsOwnOnlyIfItIsNotOlderThanTheProcess: the process started at
// second 10.4, in the second instance of its container.
func TestAnInstanceIsOwnOnlyIfItIsNotOlderThanTheProcess(t *testing.T) {
	yes, always, never := true, corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever
	one := corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}
	two := corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}, {Name: "other"}}}
	sidecar := corev1.PodSpec{Containers: []corev1.Container{{Name: "other"}}, InitContainers: []corev1.Container{{Name: "main", RestartPolicy: &always}}}
	initOnce := corev1.PodSpec{Containers: []corev1.Container{{Name: "other"}}, InitContainers: []corev1.Container{{Name: "main", RestartPolicy: &never}}}
	shared, host := one, one
	shared.ShareProcessNamespace, host.HostPID = &yes, true
	start := at(10.4)
	at := func(started float64) corev1.PodStatus {
		s := []corev1.ContainerStatus{statusOf("other", "o1", running(started), corev1.ContainerState{}), statusOf("main", "c2", running(started), ended("c1", 10.1))}
		return corev1.PodStatus{ContainerStatuses: s, InitContainerStatuses: s[1:]}
	}
	waits := corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{statusOf("main", "", corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}, corev1.ContainerState{})}}
	crashed := corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{statusOf("main", "c1", ended("c1", 10.1), corev1.ContainerState{})}}
	for name, test := range map[string]struct {
		spec      corev1.PodSpec
		status    corev1.PodStatus
		container string
		own       bool
		never     bool // there is no need to ask again
	}{
		"started after it":               {one, at(11.2), "main", true, false},
		"started within the second":      {one, at(10.5), "main", true, false},
		"the only one":                   {one, at(10.5), "", true, false},
		"one of two":                     {two, at(10.5), "main", true, false},
		"a sidecar":                      {sidecar, at(10.5), "main", true, false},
		"the former instance":            {one, at(9.9), "main", false, false},
		"the former instance, long ago":  {one, at(-3600), "main", false, false},
		"the former sidecar":             {sidecar, at(9.9), "main", false, false},
		"it waits":                       {one, waits, "main", false, false},
		"the former one's end":           {one, crashed, "main", false, false},
		"no status":                      {one, corev1.PodStatus{}, "main", false, false},
		"which of two":                   {two, at(10.5), "", false, true},
		"which of two, one a sidecar":    {sidecar, at(10.5), "", false, true},
		"another name":                   {one, at(10.5), "nobody", false, true},
		"an init container":              {initOnce, at(10.5), "main", false, true},
		"processes shared with the pod":  {shared, at(10.5), "main", false, true},
		"processes shared with the node": {host, at(10.5), "main", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			id, err := OwnContainer(&corev1.Pod{Spec: test.spec, Status: test.status}, test.container, start)
			var permanent *backoff.PermanentError
			if (err == nil) != test.own || test.own != (id == "c2") || errors.As(err, &permanent) != test.never {
				t.Errorf("it is %q, %v", id, err)
			}
		})
	}
}

// TestAFormerInstanceThatIsTakenForTheOwnIsNoProof: if both started within a second, the
// wrong ID may be noted, and the report of the former instance's end comes after that.
func TestAFormerInstanceThatIsTakenForTheOwnIsNoProof(t *testing.T) {
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}
	stale := &corev1.Pod{Spec: spec, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{statusOf("main", "c1", running(10.1), corev1.ContainerState{})}}}
	id, err := OwnContainer(stale, "main", at(10.7))
	if err != nil || id != "c1" {
		t.Fatalf("it is %q, %v: there is no such case any more", id, err)
	}
	late := &corev1.Pod{Spec: spec, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{statusOf("main", "c2", running(10.7), ended("c1", 10.6))}}}
	for _, acquired := range []float64{10.7, 10.95, 11, 15} {
		if Terminated(late, id, at(acquired)) {
			t.Errorf("who acquired at %v is declared dead by an end at 10.6", acquired)
		}
	}
}

// mountsOf is what proc(5) lists in a container.
func mountsOf(podUID, container string) string {
	return `2100 1956 0:312 / / rw,relatime master:512 - overlay overlay rw,lowerdir=/var/lib/containerd/1/fs
2110 2100 259:1 /var/lib/kubelet/pods/` + podUID + `/etc-hosts /etc/hosts rw,relatime - ext4 /dev/root rw
2111 2100 259:1 /var/lib/kubelet/pods/` + podUID + `/containers/` + container + `/0f4a3c5d /dev/termination-log rw,relatime - ext4 /dev/root rw
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
		if got := MountedContainer(mounts, "u"); got != want {
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
		if got := MountedPod(mounts); got != want {
			t.Errorf("%q, want %q: %s", got, want, mounts)
		}
	}
}

// TestWhoRunsOnAnotherKernelClaimsNothing. These mounts are written by hand after what users of those
// runtimes have published: none of them runs here.
func TestWhoRunsOnAnotherKernelClaimsNothing(t *testing.T) {
	const (
		kata   = "40 30 0:36 /passthrough/c36d/rootfs / rw,nodev,relatime - virtiofs kataShared rw\n"
		kata9p = "40 30 0:36 /c36d/rootfs / rw,nodev,relatime - 9p kataShared rw,dirsync,mmap,access=client,trans=virtio\n"
		copied = "41 40 0:20 /run/kata-containers/shared/containers/c36d-46-termination-log /dev/termination-log rw - tmpfs tmpfs rw\n"
		gvisor = "41 40 0:13 / /etc/hosts rw - 9p none rw,trans=fd,rfdno=7,wfdno=7\n"
	)
	for mounts, sandboxed := range map[string]bool{
		mountsOf("u", "main"):                  false,
		kata:                                   true,
		kata9p:                                 true,
		copied:                                 true,
		strings.Replace(copied, "/run", "", 1): true, // where /run is a file system of its own
		gvisor:                                 true,
		mountsOf("u", "main") + "50 40 0:50 / /data rw - 9p host rw\n":        false, // a volume of the node's
		mountsOf("u", "main") + "50 40 0:50 / /data rw - virtiofs share rw\n": false,
		"1 2 3\n\n - \n a - b\n": false,
		"":                       false,
	} {
		if got := Sandboxed(mounts); (got != "") != sandboxed {
			t.Errorf("runs in %q: %s", got, mounts)
		}
		var said []string
		log := funcr.New(func(_, args string) { said = append(said, args) }, funcr.Options{})
		w := newWitness(Config{Lock: "ns/sandboxed", PodName: "p", PodUID: t.Name() + mounts, Container: "main", Logger: log}, mounts)
		if claims := w.ProcessID() != (locks.ProcessID{}); claims == sandboxed && runtime.GOOS == "linux" {
			t.Errorf("it claims something: %v, with %s", claims, mounts)
		}
		if tells := strings.Contains(strings.Join(said, ""), "nobody can prove"); tells != sandboxed {
			t.Errorf("the log says %q", said)
		}
	}
}
