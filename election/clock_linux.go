// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"syscall"
	"time"
	"unsafe"
)

// Clock identifiers of clock_gettime(2), which package syscall does not name.
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// suspended returns how long this machine has been suspended since it booted:
// CLOCK_BOOTTIME runs during a suspension, CLOCK_MONOTONIC does not.
func suspended() suspension {
	return measure(
		func() time.Duration { return clockGettime(clockMonotonic) },
		func() time.Duration { return clockGettime(clockBoottime) },
	)
}

func clockGettime(id uintptr) time.Duration {
	var ts syscall.Timespec
	// Both clocks exist since Linux 2.6.39, and with valid arguments the call cannot
	// fail. It does not block, so the scheduler need not know of it.
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}
