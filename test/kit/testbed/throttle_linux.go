// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// blkio is where cgroup v1 has the controller of disks.
const blkio = "/sys/fs/cgroup/blkio"

// throttlePrefix begins the names of throttles; the test process's ID and the
// zone follow.
const throttlePrefix = "zonelect-testbed-"

// throttle is a cgroup whose programs may write to a disk so many times a
// second.
type throttle struct {
	parent, dir string
	device      string // MAJOR:MINOR
}

// newThrottle makes a cgroup that limits writes to the disk of a directory, and
// moves a program into it. It removes the cgroups that dead testbeds have left.
func newThrottle(dir, zone string, writesPerSecond int, program *task) (*throttle, error) {
	device, err := diskOf(dir)
	if err != nil {
		return nil, err
	}
	parent, err := blkioGroup()
	if err != nil {
		return nil, err
	}
	if err := sweep(parent); err != nil {
		return nil, err
	}
	t := &throttle{parent: parent, device: device, dir: filepath.Join(parent, fmt.Sprintf("%s%d-%s", throttlePrefix, os.Getpid(), zone))}
	if err := os.Mkdir(t.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a cgroup: %w", err)
	}
	if err := errors.Join(t.bound(writesPerSecond), move(t.dir, program)); err != nil {
		return nil, errors.Join(err, t.end(program))
	}
	return t, nil
}

// sweep removes the cgroups of test processes that are dead.
func sweep(parent string) error {
	all, err := filepath.Glob(filepath.Join(parent, throttlePrefix+"*"))
	for _, group := range all {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(group), throttlePrefix), "-")
		if _, dead := os.Stat("/proc/" + owner); errors.Is(dead, fs.ErrNotExist) {
			err = errors.Join(err, os.Remove(group))
		}
	}
	if err != nil {
		return fmt.Errorf("remove what a dead testbed has left: %w", err)
	}
	return nil
}

// bound sets how many writes a second are allowed; 0 is not a limit.
func (t *throttle) bound(writesPerSecond int) error {
	file := filepath.Join(t.dir, "blkio.throttle.write_iops_device")
	if err := os.WriteFile(file, fmt.Appendf(nil, "%s %d", t.device, writesPerSecond), 0); err != nil {
		return fmt.Errorf("bound the writes to device %s: %w", t.device, err)
	}
	return nil
}

// end lets writes that wait for the disk go on, moves the program back, and
// removes the cgroup.
func (t *throttle) end(program *task) error {
	err := t.bound(0)
	if program != nil && !program.ended() {
		err = errors.Join(err, move(t.parent, program))
	}
	return errors.Join(err, os.Remove(t.dir))
}

// move moves a program into a cgroup.
func move(group string, program *task) error {
	file := filepath.Join(group, "cgroup.procs")
	if err := os.WriteFile(file, []byte(strconv.Itoa(program.process.Pid)), 0); err != nil {
		return fmt.Errorf("move %s into the cgroup %s: %w", program.name, group, err)
	}
	return nil
}

// blkioGroup is the cgroup of the test process.
func blkioGroup() (string, error) {
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", fmt.Errorf("find the cgroup of this process: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.SplitN(strings.TrimSpace(line), ":", 3); len(fields) == 3 && fields[1] == "blkio" {
			group := filepath.Join(blkio, fields[2])
			if _, err := os.Stat(filepath.Join(group, "cgroup.procs")); err == nil {
				return group, nil
			}
		}
	}
	return "", fmt.Errorf("this system has no cgroup v1 controller blkio at %s", blkio)
}

// diskOf returns the disk that a directory is on, not its partition.
func diskOf(dir string) (string, error) {
	var stat unix.Stat_t
	if err := unix.Stat(dir, &stat); err != nil {
		return "", fmt.Errorf("find the disk of %s: %w", dir, err)
	}
	device := fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev))
	if _, err := os.Stat(device + "/partition"); err == nil {
		device += "/.."
	}
	number, err := os.ReadFile(device + "/dev")
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s is on no disk of its own: give Config.Dir one that is", dir)
	}
	if err != nil {
		return "", fmt.Errorf("find the disk of %s: %w", dir, err)
	}
	return strings.TrimSpace(string(number)), nil
}
