// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sidecar

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"

	"github.com/zonelect/zonelect/internal/plain"
	"github.com/zonelect/zonelect/operator"
	"github.com/zonelect/zonelect/operator/prometheus"
)

// passed are the signals that the command gets. SIGINT and SIGTERM end the sidecar.
var passed = []os.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCHLD}

// Run is the program. It returns the exit code.
func Run(ctx context.Context, args []string) int {
	o, err := parse(args, os.Stdout)
	if errors.Is(err, pflag.ErrHelp) {
		return 0
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "zonelect-sidecar:", plain.Error(err))
		return codeUsage
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, passed...)
	defer signal.Stop(signals)
	return exitCode(o.run(ctx, signals))
}

// exitCode returns the exit code for what the election ended with.
func exitCode(err error) int {
	var code exited
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}
	_, _ = fmt.Fprintln(os.Stderr, "zonelect-sidecar:", err)
	if errors.Is(err, operator.ErrOptions) {
		return codeUsage
	}
	return codeFailed
}

// run takes part in the election until ctx ends, or the command ends by itself.
func (o options) run(ctx context.Context, signals <-chan os.Signal) error {
	timing := o.Timing.WithDefaults()
	b, work := newBoard(timing), lead
	if len(o.command) == 0 {
		o.Health.Check, o.Health.Interval = b.check, b.pause/2
	}
	var endpoint *prometheus.Endpoint
	if o.metrics != "" {
		var err error
		if endpoint, err = prometheus.Serve(ctx, o.metrics); err != nil {
			return fmt.Errorf("%w: choose a free port with --metrics-bind-address", err)
		}
		defer func() { _ = endpoint.Close() }() // the election is over
		o.MeterProvider = endpoint
	}
	e, err := operator.New(ctx, o.Name, o.Options)
	if err != nil {
		return err
	}
	if endpoint != nil {
		endpoint.Handle("GET /healthz", e.LivenessHandler())
	}
	b.resign = e.Resign
	log := logr.FromSlogHandler(slog.Default().Handler())
	if len(o.command) > 0 {
		if err := adopt(); err != nil {
			return err
		}
		r := &runner{argv: o.command, out: o.out, timing: timing, log: log}
		passing, end := context.WithCancel(context.WithoutCancel(ctx))
		defer end()
		go r.pass(passing, signals)
		work = r.lead
	}
	if o.address != "" {
		end, err := serve(ctx, o.address, b, log)
		if err != nil {
			return err
		}
		defer end()
	}
	return e.Run(ctx, b.during(work))
}

// serve serves the board until the returned function is called.
func serve(ctx context.Context, address string, b *board, log logr.Logger) (end func(), err error) {
	var c net.ListenConfig
	listener, err := c.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serving /leader: %w: choose a free port with --address", err)
	}
	log.Info("serving /leader: a program that polls must have stopped this long after it sent the last request that was answered with 200",
		"address", listener.Addr().String(), "within", b.grace.String())
	server := &http.Server{Handler: b.handler(), ReadTimeout: 10 * time.Second, IdleTimeout: 90 * time.Second}
	go func() { _ = server.Serve(listener) }() // it ends by Close
	return func() { _ = server.Close() }, nil
}
