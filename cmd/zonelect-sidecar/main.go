// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command zonelect-sidecar elects a leader for programs that are not written in Go. It runs a
// command while this process leads, or tells a program that polls it whether it leads:
//
//	zonelect-sidecar [flags] -- command args...
//	zonelect-sidecar [flags]
//
// docs/sidecar.md says what it promises. It runs on Linux alone, whose kernel tells it what a command has left behind.
package main

import (
	"context"
	"os"

	"github.com/zonelect/zonelect/cmd/zonelect-sidecar/internal/sidecar"
)

func main() {
	os.Exit(sidecar.Run(context.Background(), os.Args[1:]))
}
