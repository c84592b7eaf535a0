// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package command holds the commands of kubectl-zonelect: each verb has a file of its own
// name.
package command

import (
	"context"
	"errors"
	"flag"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

	"github.com/zonelect/zonelect/heartbeat"
	"github.com/zonelect/zonelect/internal/inspect"
)

// Root returns the commands, for their documents.
func Root() *cobra.Command {
	return newRoot(newEnvironment(genericiooptions.NewTestIOStreamsDiscard()))
}

// Run runs the command in args and returns the exit code. The end of ctx interrupts the command.
func Run(ctx context.Context, streams genericiooptions.IOStreams, args []string) int {
	return run(ctx, newEnvironment(streams), args)
}

// A lock that a heartbeat keeps is shown with that heartbeat.
func init() { inspect.Compose = heartbeat.Compose }

// run is Run in an environment.
func run(ctx context.Context, env *environment, args []string) int {
	root := newRoot(env)
	root.SetArgs(args)
	c, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(ctx.Err(), context.Canceled):
		if env.changed != "" {
			env.tell("interrupted: %s\n", env.changed)
		}
		return exitInterrupted
	}
	env.tell("error: %v\n", err)
	if advice := roleOf(c).advice(err); advice != "" {
		env.tell("%s\n", advice)
	}
	// An error without an exit code is cobra's, about the command line.
	failed := failure{err, exitUsage}
	errors.As(err, &failed)
	if failed.code == exitUsage {
		env.tell("See '%s --help'.\n", c.CommandPath())
	}
	return failed.code
}

const rootLong = `Shows who leads and who led, and why nobody does, moves leadership between candidates and out of
zones, migrates legacy locks to Leases and back while the operators run, and plans the timing of an
election.

Exit codes:
  0  success
  1  an error, such as no answer from the API server or a missing permission; a problem that
     doctor found; or a leader that stayed in an evacuated zone
  2  the command line is wrong
  3  refused: the step is not safe now, or you did not confirm it; nothing was changed

A LOCK may be written as kubectl writes a Lease: lease/NAME, or lease.coordination.k8s.io/NAME.`

func newRoot(env *environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-zonelect",
		Short: "Show who leads, and move leadership",
		Long:  rootLong,
		Example: `  # All locks of a namespace
  kubectl zonelect status -n metal3-system

  # Who led before, and for how long nobody did
  kubectl zonelect history my-operator -n metal3-system

  # Why does nobody lead, or why did it take so long
  kubectl zonelect doctor my-operator -n metal3-system

  # The timing for what you know about your work and your cluster
  kubectl zonelect timing --api-outage 30s --failover 45s

  # A zone is in trouble: leadership leaves it
  kubectl zonelect evacuate zone-a -A

  # What the next step of a migration would change, and whether it is safe
  kubectl zonelect migrate plan my-operator -n metal3-system`,
		Version:       ownVersion(buildInfo()).GitVersion,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArgument,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl zonelect"},
	}
	root.SetIn(env.streams.In)
	root.SetOut(env.streams.Out)
	root.SetErr(env.streams.ErrOut)
	env.config.AddFlags(root.PersistentFlags())
	verbosity := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(verbosity)
	root.PersistentFlags().AddGoFlag(verbosity.Lookup("v"))
	_ = root.RegisterFlagCompletionFunc("namespace", completeNamespaces(env)) // the flag exists
	root.AddCommand(newStatus(env), newHistory(env), newTimeline(env), newDoctor(env), newHandover(env), newEvacuate(env), newRestore(env), newMigrate(env), newTiming(env), newRights(env), newVersion(env))
	addCompletion(root)
	return root
}
