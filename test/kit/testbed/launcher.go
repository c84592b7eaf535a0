// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// drainTime is how long a program's output is still read after its end, in case
// a child of it holds the pipe.
const drainTime = 2 * time.Second

// launcher starts programs, all from one OS thread: on Linux a program is
// killed when the thread that started it ends, and that must happen when the
// test process ends, not before.
type launcher struct {
	jobs chan func()    // each starts a program
	wg   sync.WaitGroup // of the programs that run
}

// newLauncher starts the thread. It runs until close.
func newLauncher() *launcher {
	l := &launcher{jobs: make(chan func())}
	go func() {
		runtime.LockOSThread() // for good: the thread ends with this function
		for start := range l.jobs {
			start()
		}
	}()
	return l
}

// command is what a launcher starts.
type command struct {
	name   string // for errors
	argv   []string
	env    []string // on top of the environment of the test process
	dir    string
	stdout io.Writer
	stderr string // file, appended to
}

// start starts a program. The returned task reports its end.
func (l *launcher) start(c command) (*task, error) {
	file, err := os.OpenFile(c.stderr, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", c.name, err)
	}
	cmd := exec.Command(c.argv[0], c.argv[1:]...)
	cmd.Dir, cmd.Env = c.dir, append(withoutProxies(os.Environ()), c.env...)
	cmd.Stdout, cmd.Stderr = c.stdout, file
	if c.stdout == nil {
		cmd.Stdout = file
	}
	cmd.WaitDelay = drainTime
	cmd.SysProcAttr = dieWithParent()
	started := make(chan error, 1)
	l.jobs <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, errors.Join(fmt.Errorf("start %s (%s): %w", c.name, c.argv[0], err), file.Close())
	}
	t := &task{name: c.name, log: c.stderr, process: cmd.Process, done: make(chan struct{})}
	l.wg.Go(func() {
		defer close(t.done)
		defer file.Close()
		t.err = cmd.Wait()
	})
	return t, nil
}

// close waits for all programs, which the caller has told to stop, and for the
// thread. Nothing may be started afterwards.
func (l *launcher) close() {
	l.wg.Wait()
	close(l.jobs)
}

// withoutProxies leaves out the variables that would route a program's traffic
// past the testbed's network.
func withoutProxies(environ []string) []string {
	var kept []string
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		switch strings.ToUpper(name) {
		case "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY":
		default:
			kept = append(kept, variable)
		}
	}
	return kept
}

// task is a running program, or one that has run.
type task struct {
	name    string
	log     string
	process *os.Process
	done    chan struct{} // closed when the program has ended and is reaped
	err     error         // how it ended; read it after done
	paused  bool          // stopped by the testbed, which holds its lock for every use
}

// kill kills the program and waits until it is gone. It may be gone already.
func (t *task) kill(ctx context.Context) error {
	if err := t.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s (process %d): %w", t.name, t.process.Pid, err)
	}
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the end of %s (process %d), which was killed: %w", t.name, t.process.Pid, ctx.Err())
	}
}

// ended reports whether the program is gone.
func (t *task) ended() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// runs reports whether the program is there and not paused.
func (t *task) runs() bool { return t != nil && !t.ended() && !t.paused }

// frozenTimeout bounds how long a program may take to stand still.
const frozenTimeout = 5 * time.Second

// awaitStill waits until a program that was told to stop stands still.
func (t *task) awaitStill(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, frozenTimeout)
	defer cancel()
	return poll(ctx, "wait until "+t.name+" stands still", func(context.Context) error {
		if t.ended() || frozen(t.process.Pid) {
			return nil
		}
		return fmt.Errorf("process %d still runs", t.process.Pid)
	})
}

// logTail is how much of a log an error quotes.
const logTail = 1500

// tail returns the end of the program's log.
func (t *task) tail() string {
	data, err := os.ReadFile(t.log)
	if err != nil {
		return "(no log: " + err.Error() + ")"
	}
	return string(data[max(0, len(data)-logTail):])
}
