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

	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's ways to log in

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/command"
)

func main() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends a command that does not end
	os.Exit(command.Run(ctx, streams, os.Args[1:]))
}
