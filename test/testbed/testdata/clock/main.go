// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command clock says by how much the wall clock has been stepped since its
// start, as the monotonic clock sees it, whenever that changes.
package main

import (
	"fmt"
	"time"
)

func main() {
	start := time.Now()
	for last := time.Duration(-1); ; time.Sleep(10 * time.Millisecond) {
		now := time.Now()
		wall, elapsed := now.Round(0).Sub(start.Round(0)), now.Sub(start)
		if stepped := (wall - elapsed).Round(time.Minute); stepped != last {
			fmt.Println(stepped)
			last = stepped
		}
	}
}
