// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

// process is a candidate that runs.
type process interface {
	io.WriteCloser // its standard input
	// Terminate asks it to stop, by SIGTERM where there are signals.
	Terminate() error
	Kill() error
	// Wait returns when it has ended, and has written its last line.
	Wait() error
}

// child is a process that launch has started.
type child struct {
	io.WriteCloser
	*exec.Cmd
}

func (c child) Kill() error { return c.Process.Kill() }

func (c child) Terminate() error {
	if runtime.GOOS == "windows" { // it has no SIGTERM
		_, err := io.WriteString(c, wordStop+"\n")
		return err
	}
	return c.Process.Signal(syscall.SIGTERM)
}

// launch starts this program again, as a child that notices when this process ends.
func launch(args []string, out, errOut io.Writer) (process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	c := exec.Command(self, args...) //nolint:gosec,noctx // it is this program, and outlives every context for as long as it takes to clean up
	c.Stdout, c.Stderr = out, errOut
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("start a candidate: %w", err)
	}
	return child{in, c}, nil
}

// alone ignores the signals by which a terminal ends what runs in it: the parent hears them, too, and
// has the candidates end in good order. The pipes to a parent that is dead are no reason to end, either.
// The returned context ends with SIGTERM.
//
// The variables of a pod are forgotten: three candidates that run in one pod, such as that of a shell,
// would be taken for one.
func alone(ctx context.Context) (context.Context, context.CancelFunc) {
	signal.Ignore(os.Interrupt, syscall.SIGHUP, syscall.SIGPIPE)
	for _, name := range []string{"KUBERNETES_SERVICE_HOST", "POD_NAME", "POD_UID", "NODE_NAME", "NODE_ZONE", "CONTAINER_NAME"} {
		_ = os.Unsetenv(name) // it has no wrong characters
	}
	return signal.NotifyContext(ctx, syscall.SIGTERM)
}

// persist keeps Ctrl-C from ending this process.
func persist() (release func()) {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	return func() { signal.Stop(interrupts) }
}
