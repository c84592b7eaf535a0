// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// playVirtually shows an election in virtual time, for those who wait for the first build of the
// control plane. Virtual time needs a test, which go test runs.
func playVirtually(ctx context.Context) {
	path, err := place("virtual.html")
	if err == nil {
		cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-run", "TestAMinuteInVirtualTime", ".", "-args", "-page", path)
		cmd.Dir = filepath.Join(path, "..", "..", "..", "test", "programs", "demo")
		err = cmd.Run()
	}
	if err != nil {
		fmt.Printf("The election in virtual time cannot be shown: %v\n", err)
		return
	}
	fmt.Print("\nMeanwhile, open build/demo/virtual.html: a minute of an election in virtual time, with an outage of the API, a loss of power and a handover.\n\n")
}
