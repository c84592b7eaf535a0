// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command clock prints how far the wall clock has been stepped since its start,
// by the monotonic clock, whenever that changes. It imports next to nothing,
// because all imports are rebuilt.
package main

import (
	"syscall"
	"time"
)

func main() {
	start := time.Now()
	for last := time.Duration(-1); ; time.Sleep(10 * time.Millisecond) {
		now := time.Now()
		wall, elapsed := now.Round(0).Sub(start.Round(0)), now.Sub(start)
		if stepped := (wall - elapsed).Round(time.Minute); stepped != last {
			_, _ = syscall.Write(1, []byte(stepped.String()+"\n"))
			last = stepped
		}
	}
}
