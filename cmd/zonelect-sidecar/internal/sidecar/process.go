// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sidecar

import (
	"os"
	"os/exec"
	"runtime"
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
