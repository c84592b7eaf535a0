// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

// ProcessLock takes the process lock of this container, once, and returns which one it is and a
// name of this process, as locks.Details.ProcessLock has it. It is empty if this process does not
// get the lock, or is not the first process of a container of the kubelet's.
//
// It proves that the process that holds a lock has ended, so that its lease need not run out. Nothing
// else proves that. What the container's processes sent before may land later, see docs/design.md.
//
// The lock is a socket with an abstract name, made of the pod's UID and the container's name. Only
// the kernel frees it, at the end of the process. Which socket it is depends on the boot and the
// network namespace, too. Whoever is the first process of the same container later, and gets that
// very socket, knows that all processes of the former instance have ended: the runtime starts an
// instance only after that. The kernel frees the socket of a first process a moment before it kills
// the others of its PID namespace, so any other process would know too early.
//
// The mounts of the kubelet say which pod and container this is. They do not in a virtual machine or
// a sandbox, such as Kata Containers and gVisor: nobody here has tried what goes on there when it is
// cut off.
var ProcessLock = sync.OnceValue(func() string {
	mounts, _ := os.ReadFile("/proc/self/mountinfo") // without it nothing is known
	return takeProcessLock(os.Getpid(), string(mounts))
})

func takeProcessLock(pid int, mounts string) string {
	pod := mountedPod(mounts)
	container := mountedContainer(mounts, pod)
	if pid != 1 || pod == "" || container == "" {
		return ""
	}
	runtime.LockOSThread() // a thread may be in a network namespace of its own
	defer runtime.UnlockOSThread()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	network, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		return ""
	}
	sum := sha256.Sum256([]byte(pod + "/" + container))
	name := hex.EncodeToString(sum[:16])
	// A raw descriptor, so that nothing in Go closes it. Other processes do not inherit it.
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: "@zonelect/" + name}); err != nil {
		_ = syscall.Close(fd)
		return ""
	}
	return strings.TrimSpace(string(boot)) + "/" + network + "/" + name + "/" + rand.Text()
}
