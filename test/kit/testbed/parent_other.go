// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package testbed

import "syscall"

// dieWithParent is not possible here: programs outlive a test process that is
// killed before Close.
func dieWithParent() *syscall.SysProcAttr { return nil }

// frozen cannot tell here; a stop signal works soon enough.
func frozen(int) bool { return true }
