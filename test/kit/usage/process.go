// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package usage reads from outside what an election costs: what a process uses, as Linux
// counts it, and what API servers were asked, by their audit logs.
package usage

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Process is what a process has used so far, or uses now.
type Process struct {
	CPU         time.Duration // user and system time so far, in steps of 10 ms
	RSS         int64         // resident memory now, in bytes
	Bytes       int64         // read and written so far, almost all of it on connections
	Connections int           // established TCP connections now
}

// tick is the unit of the times in /proc, on every architecture that Go knows.
const tick = 10 * time.Millisecond

// Of reads what a process uses. It needs Linux.
func Of(pid int) (Process, error) {
	var p Process
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	for _, read := range []func(dir string) error{p.readCPU, p.readRSS, p.readBytes, p.readConnections} {
		if err := read(dir); err != nil {
			return p, fmt.Errorf("read what process %d uses: %w", pid, err)
		}
	}
	return p, nil
}

// Since is what was used after before was read; RSS and Connections are those of now.
func (p Process) Since(before Process) Process {
	p.CPU -= before.CPU
	p.Bytes -= before.Bytes
	return p
}

// readCPU reads the 14th and the 15th field. The second is the program's name in
// parentheses, which may contain anything.
func (p *Process) readCPU(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 13 {
		return fmt.Errorf("%s/stat has %d fields after the name", dir, len(fields))
	}
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return err
		}
		p.CPU += time.Duration(ticks) * tick
	}
	return nil
}

func (p *Process) readRSS(dir string) error {
	values, err := named(filepath.Join(dir, "status"), "VmRSS")
	if err == nil {
		p.RSS = values[0] << 10 // it is in kB
	}
	return err
}

func (p *Process) readBytes(dir string) error {
	values, err := named(filepath.Join(dir, "io"), "rchar", "wchar")
	if err == nil {
		p.Bytes = values[0] + values[1]
	}
	return err
}

// named reads numbers from lines as "name: 123 kB".
func named(file string, names ...string) ([]int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	values := make([]int64, len(names))
	for i, name := range names {
		_, after, found := strings.Cut("\n"+string(text), "\n"+name+":")
		fields := strings.Fields(after)
		if !found || len(fields) == 0 {
			return nil, fmt.Errorf("%s has no %s", file, name)
		}
		if values[i], err = strconv.ParseInt(fields[0], 10, 64); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// readConnections counts the established connections among the process's own sockets: other
// processes may be in the same network namespace.
func (p *Process) readConnections(dir string) error {
	own, err := sockets(dir)
	if err != nil {
		return err
	}
	const established, stateField, inodeField = "01", 3, 9
	for _, name := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(filepath.Join(dir, "net", name))
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > inodeField && f[stateField] == established && slices.Contains(own, f[inodeField]) {
				p.Connections++
			}
		}
	}
	return nil
}

// sockets are the inodes of a process's sockets.
func sockets(dir string) ([]string, error) {
	files, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return nil, err
	}
	var inodes []string
	for _, file := range files {
		to, err := os.Readlink(filepath.Join(dir, "fd", file.Name()))
		if err != nil {
			continue // it was closed meanwhile
		}
		if inode, is := strings.CutPrefix(to, "socket:["); is {
			inodes = append(inodes, strings.TrimSuffix(inode, "]"))
		}
	}
	return inodes, nil
}
