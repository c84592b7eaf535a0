// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package testbed

import "syscall"

// dieWithParent cannot be had here: programs outlive a test process that is
// killed before Close.
func dieWithParent() *syscall.SysProcAttr { return nil }

// frozen cannot be asked here; a stop signal works soon enough.
func frozen(int) bool { return true }
