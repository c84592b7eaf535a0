// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"errors"
	"syscall"
)

// attributes cannot make the kernel kill the command if this process dies: clusters do not run
// here, developers do.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// adopt has nothing to do: orphans go to the first process of the machine.
func adopt() error { return nil }

func reapOrphans(int) {}

// leftBehind reports whether the group of a command that has been reaped has others, and kills
// them.
func leftBehind(group int) bool {
	return !errors.Is(syscall.Kill(-group, syscall.SIGKILL), syscall.ESRCH)
}
