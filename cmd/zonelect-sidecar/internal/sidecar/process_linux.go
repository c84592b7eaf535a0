// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// adopt makes this process the parent of all that a command leaves behind, as the first process
// of a container is anyway.
func adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming the parent of what a command leaves behind: %w", err)
	}
	_, err := orphans(0)
	return err
}

// child is a process as /proc/PID/stat shows it.
type child struct {
	pid, parent, group, session int

	zombie bool // or its first thread has ended, and others run
}

// parseStat reads proc(5)'s stat. Its second field may hold spaces and parentheses.
func parseStat(pid int, stat string) (child, error) {
	c, state := child{pid: pid}, ""
	_, err := fmt.Sscan(stat[strings.LastIndexByte(stat, ')')+1:], &state, &c.parent, &c.group, &c.session)
	c.zombie = state == "Z"
	return c, err
}

func look(pid int) (child, error) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return child{}, err
	}
	return parseStat(pid, string(stat))
}

// orphans returns the children of this process other than the command: what it has started, and
// left behind. A child in this process's own session is not the command's, because that began
// in another, and no process can move to a session that exists.
func orphans(command int) ([]child, error) {
	own, err := look(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("processes that a command leaves behind cannot be seen: mount /proc: %w", err)
	}
	names, _ := filepath.Glob("/proc/[1-9]*") // the pattern is a good one
	var all []child
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil || pid == command {
			continue
		}
		if c, err := look(pid); err == nil && c.parent == own.pid && c.session != own.session {
			all = append(all, c)
		} // else it has ended meanwhile
	}
	return all, nil
}

// reapOrphans reaps those that have ended, as the first process of a container must.
func reapOrphans(command int) {
	all, _ := orphans(command) // adopt has seen that it works
	for _, c := range all {
		if c.zombie {
			_, _ = syscall.Wait4(c.pid, nil, syscall.WNOHANG, nil)
		}
	}
}

// leftBehind kills and reaps what a command that has been reaped has left behind, and reports
// whether there was any. When a process ends, its children become those of this process, so
// nothing is left if this process has no child.
func leftBehind() bool {
	all, err := orphans(0)
	for _, c := range all {
		if c.group > 1 { // as it was, until c is reaped; those of a group cannot fork their way out of this
			_ = syscall.Kill(-c.group, syscall.SIGKILL)
		}
		_ = syscall.Kill(c.pid, syscall.SIGKILL) // nobody else reaps it, so the ID is its own
		_, _ = syscall.Wait4(c.pid, nil, syscall.WNOHANG, nil)
	}
	return len(all) > 0 || err != nil
}
