// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// ProcessSpec is a program to run in a zone.
type ProcessSpec struct {
	// Name is for logs and errors, and names the log file. Required.
	Name string
	// Path is the program's file. Required.
	Path string
	// Args are its arguments, without the program's name.
	Args []string
	// Env is added to the test process's environment, from which proxy
	// settings are left out.
	Env []string
}

// Process is a program that runs in a zone, or has run there. Its methods are
// safe for concurrent use.
type Process struct {
	bed    *shared
	zone   string
	task   *task
	output *transcript
}

// StartProcess runs a program in a zone. The program ends by itself, by its
// methods, by CutPower of the zone, or at Close; on Linux also when the test
// process dies. StartProcess fails for a zone without power.
func (t *Testbed) StartProcess(zone string, spec ProcessSpec) (*Process, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	z, err := t.poweredZone(zone)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	output := &transcript{}
	started, err := t.launcher.start(command{
		name: spec.Name, argv: t.fabric.inside(zone, append([]string{spec.Path}, spec.Args...)),
		env: spec.Env, stdout: output, stderr: filepath.Join(t.dir, zone, spec.Name+".log"),
	})
	if err != nil {
		return nil, err
	}
	z.programs = append(z.programs, started)
	return &Process{bed: t.shared, zone: zone, task: started, output: output}, nil
}

// Log is the file with the program's standard error.
func (p *Process) Log() string { return p.task.log }

// Output returns the lines that the program has printed to its standard output so far. They are kept in memory until
// the testbed is gone.
func (p *Process) Output() []string { return p.output.all() }

// Done returns a channel that is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.task.done }

// Wait waits for the program's end. It returns nil if the program ended with
// status 0, an *exec.ExitError if it did not, or the error of ctx.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.task.done:
		return p.task.err
	case <-ctx.Done():
		return fmt.Errorf("wait for the end of %s: %w", p.task.name, ctx.Err())
	}
}

// Pause freezes the program (SIGSTOP). When Pause returns, the program is
// frozen; its connections stay open.
func (p *Process) Pause() error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return p.task.awaitStill(p.bed.ctx)
}

// Resume lets a paused program go on (SIGCONT).
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

// Terminate asks the program to end (SIGTERM).
func (p *Process) Terminate() error { return p.signal(syscall.SIGTERM) }

// Kill ends the program at once (SIGKILL); see Done. Killing a program that has
// ended is not an error.
func (p *Process) Kill() error {
	if err := p.signal(os.Kill); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// signal sends a signal to the program, never to another one that got its ID.
func (p *Process) signal(s os.Signal) error {
	if err := p.task.process.Signal(s); err != nil {
		return fmt.Errorf("send %s to %s (process %d): %w", s, p.task.name, p.task.process.Pid, err)
	}
	return nil
}
