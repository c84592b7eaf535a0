// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// dieWithParent makes the kernel kill a program when the thread that started it
// ends, so that a killed test process leaves nothing running.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// frozen reports whether all threads of a process stand still.
func frozen(pid int) bool {
	files, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	if err != nil || len(files) == 0 {
		return false
	}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		// The state follows the name, which is in brackets and may contain
		// brackets.
		if end := bytes.LastIndexByte(stat, ')'); !bytes.HasPrefix(stat[end+1:], []byte(" T")) {
			return false
		}
	}
	return true
}
