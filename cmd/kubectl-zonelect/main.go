// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-zonelect shows which candidate leads, moves the leader between candidates
// and out of zones, and migrates legacy locks to Leases and back. With this program on the
// PATH, "kubectl zonelect" runs it.
package main

import (
	"context"
	"os"
	"os/signal"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's ways to log in

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/command"
)

func main() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	ctx, stop := context.WithCancel(context.Background())
	if !signal.Ignored(os.Interrupt) {
		ctx, stop = signal.NotifyContext(ctx, os.Interrupt)
		context.AfterFunc(ctx, stop) // a second Ctrl-C ends a command that does not end
	}
	code := command.Run(ctx, streams, os.Args[1:])
	if ctx.Err() != nil {
		stop()
		// A shell goes on with its script unless the signal ends this process. Windows has none.
		if self, err := os.FindProcess(os.Getpid()); err == nil && self.Signal(os.Interrupt) == nil {
			time.Sleep(time.Second)
		}
	}
	os.Exit(code)
}
