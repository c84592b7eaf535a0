// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// takeLock binds a socket to an abstract name that stands for text, and never closes it: it
// ends with the process, and other processes do not inherit it. It returns which socket that
// is, empty if that is not known, and whether it has it: the place where such names are unique,
// and the name. Socket and place are those of one thread, because a thread may be in a network
// namespace of its own.
func takeLock(text string) (socket string, taken bool) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", false
	}
	network, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		return "", false
	}
	name := lockName(text)
	socket = strings.TrimSpace(string(boot)) + "/" + network + "/" + name
	// A raw descriptor, so that nothing in Go closes it.
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return socket, false
	}
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: "@zonelect/" + name}); err != nil {
		_ = syscall.Close(fd)
		return socket, false
	}
	return socket, true
}

// lockName stands for text in an abstract socket's name, which has 107 bytes at most.
func lockName(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// processStart returns when this process started, by the wall clock's present setting, to a
// hundredth of a second.
func processStart() (time.Time, error) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return time.Time{}, fmt.Errorf("finding out when this process started: %w", err)
	}
	uptime, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return time.Time{}, fmt.Errorf("finding out when this process started: %w", err)
	}
	age, err := ageOf(string(stat), string(uptime))
	return time.Now().Add(-age), err
}

// ageOf reads from proc(5)'s files how long ago a process started. Both count from the boot:
// stat in hundredths of a second, in its 22nd field. Its second field may hold spaces and
// parentheses.
func ageOf(stat, uptime string) (time.Duration, error) {
	const start, parenthesized = 22, 2
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	up, _, _ := strings.Cut(uptime, " ")
	if len(fields) <= start-parenthesized-1 {
		return 0, fmt.Errorf("/proc/self/stat has %d fields after its name", len(fields))
	}
	ticks, err := strconv.ParseUint(fields[start-parenthesized-1], 10, 62)
	if err != nil {
		return 0, fmt.Errorf("reading /proc/self/stat: %w", err)
	}
	now, err := time.ParseDuration(up + "s")
	if err != nil {
		return 0, fmt.Errorf("reading /proc/uptime: %w", err)
	}
	age := now - time.Duration(ticks)*(time.Second/100)
	if age < 0 {
		return 0, fmt.Errorf("/proc/uptime says %v, less than the start of this process: is it another machine's?", now)
	}
	return age, nil
}
