// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sidecar

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"

	"github.com/zonelect/zonelect/election"
)

// exited is the exit code of a command that ended by itself.
type exited int

func (e exited) Error() string { return fmt.Sprintf("the command ended with exit code %d", int(e)) }

// Exit codes, as those of a shell.
const (
	codeFailed   = 1
	codeUsage    = 2
	codeSignaled = 128
)

// runner runs a command for each term.
type runner struct {
	argv   []string
	out    *os.File // of the command
	timing election.Timing
	log    logr.Logger

	mu      sync.Mutex
	running *process // nil while no command runs
}

// pass passes signals on to the command that runs, until ctx ends. Without one it drops them. It reaps what
// others leave to the first process of a container, such as the kubelet's probes.
func (r *runner) pass(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case s := <-signals:
			r.mu.Lock()
			if r.running != nil {
				r.running.pass(s)
			} else if s == syscall.SIGCHLD {
				reapOrphans(0)
			}
			r.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// lead runs the command until it ends by itself, or the term ends and the command has been
// stopped. When it returns, nothing that the command has started is left. In a term that is over
// it starts nothing.
func (r *runner) lead(ctx context.Context, term election.Term) error {
	r.log.Info("running the command", "command", r.argv[0], "token", term.Token) // while it runs no log may hold this up
	l := limit{timing: r.timing}
	if l.trust(time.Now(), term.TrustedFor()); l.over {
		<-ctx.Done() // it ends too: the log, or all of this process, was held up
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p, err := r.start(term)
	if err != nil {
		return fmt.Errorf("starting the command: %w", err)
	}
	code := r.follow(ctx, term, p, l)
	r.mu.Lock()
	r.running = nil
	r.mu.Unlock()
	if ctx.Err() != nil {
		r.log.Info("the command has stopped", "pid", p.pid, "code", code)
		return ctx.Err()
	}
	r.log.Info("the command ended by itself", "pid", p.pid, "code", code)
	if code == 0 {
		return nil
	}
	return exited(code)
}

// start starts the command with its environment.
func (r *runner) start(term election.Term) (*process, error) {
	cmd := exec.Command(r.argv[0], r.argv[1:]...) //nolint:gosec,noctx // it runs what the user says, and the term stops it
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, r.out, os.Stderr
	cmd.Env = append(os.Environ(),
		fmt.Sprint("ZONELECT_TOKEN=", term.Token),
		fmt.Sprint("ZONELECT_LOCK=", term.Lock.Namespace, "/", term.Lock.Name),
		"ZONELECT_IDENTITY="+term.Holder,
	)
	r.mu.Lock()
	defer r.mu.Unlock()
	p, err := start(cmd)
	if err == nil {
		r.running = p
	}
	return p, err
}

// follow returns the exit code of the command when everything of it is gone. The limit knows how
// long the term was trusted before the command started, which may have taken long.
func (r *runner) follow(ctx context.Context, term election.Term, p *process, l limit) int {
	tick := time.NewTicker(l.interval())
	defer tick.Stop()
	over, killed := ctx.Done(), false
	for {
		now := time.Now()
		l.trust(now, term.TrustedFor())
		if !killed && l.kill(now) {
			killed = true
			p.signal(syscall.SIGKILL)
			r.log.Info("the command is killed: it has not stopped in time", "pid", p.pid)
		}
		select {
		case <-p.gone:
			return p.code()
		case <-over:
			over = nil
			l.ask(time.Now(), context.Cause(ctx))
			p.signal(syscall.SIGTERM)
		case <-tick.C:
		}
	}
}
