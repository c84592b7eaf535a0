// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package sidecar

import (
	"context"
	"fmt"
	"os"
	"os/exec"
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
	codeNoStart  = 126
	codeNoSuch   = 127
	codeSignaled = 128
)

// runner runs a command for each term.
type runner struct {
	argv    []string
	out     *os.File // of the command
	timing  election.Timing
	signals <-chan os.Signal // passed on to the command, except SIGCHLD
	log     logr.Logger

	rested func() // ends the rest between two commands; nil if there is none
}

// rest begins to do what remains while no command runs: it drops the signals, and reaps what
// others leave to the first process of a container, such as the kubelet's probes.
func (r *runner) rest() {
	over, done := make(chan struct{}), make(chan struct{})
	r.rested = func() { close(over); <-done }
	go func() {
		defer close(done)
		for {
			select {
			case s := <-r.signals:
				if s == syscall.SIGCHLD {
					reapOrphans(0)
				}
			case <-over:
				return
			}
		}
	}()
}

// lead runs the command until it ends by itself, or the term ends and the command has been
// stopped. When it returns, nothing that the command has started is left. In a term that is over
// it starts nothing.
func (r *runner) lead(ctx context.Context, term election.Term) error {
	if r.rested != nil {
		r.rested()
		defer r.rest()
	}
	r.log.Info("running the command", "command", r.argv[0], "token", term.Token) // while it runs no log may hold this up
	r.forget()
	l := limit{timing: r.timing}
	if l.trust(time.Now(), term.TrustedFor()); l.over {
		<-ctx.Done() // it ends too: the log, or all of this process, was held up
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p, err := start(r.prepare(term))
	if err != nil {
		r.log.Error(err, "the command cannot be started", "command", r.argv[0])
		return exited(codeNoStart)
	}
	code := r.follow(ctx, term, p, l)
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

// forget drops the signals that came while no command ran.
func (r *runner) forget() {
	for {
		select {
		case <-r.signals:
		default:
			return
		}
	}
}

// prepare returns the command with its environment.
func (r *runner) prepare(term election.Term) *exec.Cmd {
	cmd := exec.Command(r.argv[0], r.argv[1:]...) //nolint:gosec,noctx // it runs what the user says, and the term stops it
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, r.out, os.Stderr
	cmd.Env = append(os.Environ(),
		fmt.Sprint("ZONELECT_TOKEN=", term.Token),
		fmt.Sprint("ZONELECT_LOCK=", term.Lock.Namespace, "/", term.Lock.Name),
		"ZONELECT_IDENTITY="+term.Holder,
	)
	return cmd
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
		case s := <-r.signals:
			p.pass(s)
		case <-tick.C:
		}
	}
}
