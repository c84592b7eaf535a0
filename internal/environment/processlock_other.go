// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package environment

// ProcessLock returns nothing: there are no abstract sockets here.
func ProcessLock() string { return "" }
