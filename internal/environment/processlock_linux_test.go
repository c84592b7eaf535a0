// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// envHolder makes this program a process that has the process lock of the pod of that UID; its child
// only sleeps.
const (
	envHolder = "PROCESSLOCK_TEST_HOLDER"
	envChild  = "PROCESSLOCK_TEST_CHILD"
)

func TestMain(m *testing.M) {
	switch pod := os.Getenv(envHolder); {
	case os.Getenv(envChild) != "":
		time.Sleep(time.Hour)
	case pod != "":
		lock := takeProcessLock(1, mountsOf(pod, "main"))
		child := exec.Command("/proc/self/exe")
		child.Env = append(os.Environ(), envChild+"=1")
		if err := child.Start(); err != nil {
			panic(err)
		}
		fmt.Println(lock, child.Process.Pid)
		time.Sleep(time.Hour)
	default:
		os.Exit(m.Run())
	}
}

// hold starts a process that takes the process lock of a pod, and a child of it that goes on. It returns
// what the first one says, and what kills it.
func hold(t *testing.T, pod string) (lock string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envHolder+"="+pod)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	kill = func() {
		_ = cmd.Process.Kill()
		_, _ = cmd.Process.Wait()
	}
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	var child int
	if _, err := fmt.Sscan(line, &lock, &child); err != nil {
		t.Fatal(line, err)
	}
	t.Cleanup(func() { _ = syscall.Kill(child, syscall.SIGKILL) })
	return lock, kill
}

// TestS3AProcessLockIsFreedByTheEndOfItsProcessAlone, even while a child lives on, which a container's
// next process outlives.
func TestS3AProcessLockIsFreedByTheEndOfItsProcessAlone(t *testing.T) {
	pod := rand.Text()
	held, kill := hold(t, pod)
	if held == "" {
		t.Fatal("a free process lock is not taken")
	}
	if again := takeProcessLock(1, mountsOf(pod, "main")); again != "" {
		t.Errorf("TWO LEADERS: %s is taken while it is held: %s", held, again)
	}
	kill()
	next := takeProcessLock(1, mountsOf(pod, "main"))
	if path.Dir(next) != path.Dir(held) || path.Base(next) == path.Base(held) {
		t.Errorf("after the end of %s the next process has %s", held, next)
	}
	if again := takeProcessLock(1, mountsOf(pod, "main")); again != "" {
		t.Errorf("it is taken twice in one process: %s", again)
	}
}

// TestS3OnlyTheFirstProcessOfAContainerHasAProcessLock. The mounts of gVisor and Kata Containers are written by
// hand after what users have published: neither runs here.
func TestS3OnlyTheFirstProcessOfAContainerHasAProcessLock(t *testing.T) {
	pod := rand.Text()
	for name, tc := range map[string]struct {
		pid    int
		mounts string
	}{
		"a later process":     {2, mountsOf(pod, "main")},
		"no container":        {1, ""},
		"an unknown name":     {1, mountsOf(pod, "")},
		"several containers'": {1, mountsOf(pod, "main") + mountsOf(pod, "other")},
		"Kata Containers": {1, "40 30 0:36 /passthrough/c36d/rootfs / rw - virtiofs kataShared rw\n" +
			"41 40 0:20 /run/kata-containers/shared/containers/c36d-46-termination-log /dev/termination-log rw - tmpfs tmpfs rw\n"},
		"gVisor": {1, "41 40 0:13 / /etc/hosts rw - 9p none rw\n42 40 0:13 / /dev/termination-log rw - 9p none rw\n"},
	} {
		if lock := takeProcessLock(tc.pid, tc.mounts); lock != "" {
			t.Errorf("%s has the process lock %s", name, lock)
		}
	}
	if lock := ProcessLock(); lock != "" {
		t.Errorf("this process is none, and has %s", lock)
	}
}

// TestS3EachContainerHasAProcessLockOfItsOwn: of its pod, its name and the network namespace.
func TestS3EachContainerHasAProcessLockOfItsOwn(t *testing.T) {
	pod, other := rand.Text(), rand.Text()
	seen := map[string]bool{}
	for _, mounts := range []string{mountsOf(pod, "main"), mountsOf(pod, "other"), mountsOf(other, "main")} {
		lock := takeProcessLock(1, mounts)
		if lock == "" || seen[path.Dir(lock)] || strings.Count(lock, "/") != 3 {
			t.Errorf("it has %q beside %v", lock, seen)
		}
		seen[path.Dir(lock)] = true
	}
	apart := make(chan string)
	go func() {
		defer close(apart)
		runtime.LockOSThread() // the thread ends with the goroutine
		if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
			t.Log("namespaces are not permitted here:", err)
			return
		}
		apart <- takeProcessLock(1, mountsOf(pod, "main"))
	}()
	if lock, permitted := <-apart; permitted && (lock == "" || seen[path.Dir(lock)]) {
		t.Errorf("in another network namespace it has %q beside %v", lock, seen)
	}
}
