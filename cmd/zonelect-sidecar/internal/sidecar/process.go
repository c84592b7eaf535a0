// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sidecar

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a command that runs in a session of its own, and so in a process group of its own.
type process struct {
	cmd  *exec.Cmd
	pid  int           // and the ID of its group
	gone chan struct{} // closed when it and all that it has started are gone

	mu     sync.Mutex
	reaped bool // its ID may be that of another process
}

// start starts a command. The kernel kills a command when the thread ends that started it
// (Pdeathsig), so that thread waits for its end.
func start(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	p, started := &process{cmd: cmd, gone: make(chan struct{})}, make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		if started <- err; err == nil {
			p.reap()
		}
	}()
	return p, <-started
}

// reap waits for the command's end, and ends what it has left behind.
func (p *process) reap() {
	defer close(p.gone)
	awaitEnd(p.pid)
	p.mu.Lock()
	_ = syscall.Kill(-p.pid, syscall.SIGKILL) // the others of its group, while nothing else can have its ID
	_ = p.cmd.Wait()                          // its state says what came of it
	p.reaped = true
	p.mu.Unlock()
	for leftBehind() {
		time.Sleep(2 * time.Millisecond) // they have been killed, and take a moment
	}
}

// signal sends a signal to the command and all others of its group.
func (p *process) signal(s syscall.Signal) { p.send(-p.pid, s) }

// pass passes a signal on to the command alone. SIGCHLD is for this process: somebody that the
// command has left behind may have ended. Once the command has been reaped only leftBehind reaps:
// if somebody else did while it looks, it would see neither that process nor the children of it,
// which this process has had since.
func (p *process) pass(s os.Signal) {
	if n, ok := s.(syscall.Signal); ok && n != syscall.SIGCHLD {
		p.send(p.pid, n)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		reapOrphans(p.pid)
	}
}

func (p *process) send(to int, s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(to, s) // it may have ended
	}
}

// code returns the exit code, as a shell tells it. The command must be gone.
func (p *process) code() int {
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return codeSignaled + int(status.Signal())
	}
	return p.cmd.ProcessState.ExitCode()
}

// awaitEnd waits until a child has ended, and leaves it unreaped, so that its ID stays taken.
func awaitEnd(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

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
