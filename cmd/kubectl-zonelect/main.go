// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-zonelect shows who leads, and moves operators off the locks
// of the past and back. On the PATH it is "kubectl zonelect".
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // the ways to log in that kubectl knows
)

// The exit codes, as the help of the root command lists them.
const (
	exitOK      = 0
	exitError   = 1
	exitUsage   = 2
	exitRefused = 3
)

func main() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	os.Exit(run(context.Background(), newEnvironment(streams), os.Args[1:]))
}

// run runs one command and returns the exit code.
func run(ctx context.Context, env *environment, args []string) int {
	root := newRoot(env)
	root.SetArgs(args)
	c, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	env.tell("error: %v\n", err)
	if advice := roleOf(c).advice(err); advice != "" {
		env.tell("%s\n", advice)
	}
	// What has no exit code is what cobra finds wrong in the command line.
	failed := failure{err, exitUsage}
	errors.As(err, &failed)
	if failed.code == exitUsage {
		env.tell("See '%s --help'.\n", c.CommandPath())
	}
	return failed.code
}

// failure is an error with the exit code that it means.
type failure struct {
	error
	code int
}

func (f failure) Unwrap() error { return f.error }

func usage(format string, args ...any) error {
	return failure{fmt.Errorf(format, args...), exitUsage}
}

// failed gives an error that a command ran into the exit code 1, unless it has
// one.
func failed(err error) error {
	var already failure
	if err == nil || errors.As(err, &already) {
		return err
	}
	return failure{err, exitError}
}
