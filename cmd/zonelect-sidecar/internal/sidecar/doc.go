// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package sidecar is what command zonelect-sidecar does: it holds a lock for a command that it
// runs, or for a program that polls it.
//
// One rule stands above all: the lock is released, and the election goes on, only when
// everything that was started or told to work has stopped. A command gets SIGTERM when its term
// ends, and SIGKILL a fifth of the StopGrace before another candidate could lead. All that it
// has started goes with it. A program that polls is waited for.
package sidecar
