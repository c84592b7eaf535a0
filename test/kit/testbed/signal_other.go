// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package testbed

import "os"

// This system cannot freeze a program, or ask it to end; os.Process.Signal
// returns that error.
var (
	stopSignal      os.Signal = unsupported("stop")
	continueSignal  os.Signal = unsupported("continue")
	terminateSignal os.Signal = unsupported("terminate")
)

// unsupported is a signal that this system does not have.
type unsupported string

// String returns the signal's name.
func (u unsupported) String() string { return string(u) }

// Signal marks it as a signal.
func (u unsupported) Signal() {}
