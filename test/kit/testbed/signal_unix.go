// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package testbed

import (
	"os"
	"syscall"
)

// stopSignal and continueSignal freeze a program and let it go on;
// terminateSignal asks it to end.
var (
	stopSignal      os.Signal = syscall.SIGSTOP
	continueSignal  os.Signal = syscall.SIGCONT
	terminateSignal os.Signal = syscall.SIGTERM
)
