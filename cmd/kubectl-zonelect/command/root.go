// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package command holds the commands of kubectl-zonelect: each verb has a file of its own
// name.
package command

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"regexp"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

	"github.com/zonelect/zonelect/internal/plain"
)

// Run runs the command in args and returns the exit code. The end of ctx interrupts the command.
func Run(ctx context.Context, streams genericiooptions.IOStreams, args []string) int {
	return run(ctx, newEnvironment(streams), args)
}

// run is Run in an environment.
func run(ctx context.Context, env *environment, args []string) int {
	root := newRoot(env)
	root.SetArgs(args)
	c, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(ctx.Err(), context.Canceled):
		return exitInterrupted
	}
	env.tell("error: %s\n", plain.Error(err))
	if advice := env.role.advice(err); advice != "" {
		env.tell("%s\n", advice)
	}
	failed := failure{err, exitError}
	if !env.begun { // cobra says what is wrong with the command line
		failed.code = exitUsage
	}
	errors.As(err, &failed)
	if failed.code == exitUsage {
		env.tell("See '%s --help'.\n", c.CommandPath())
	}
	return failed.code
}

const rootLong = `LOCK is the name of a Lease. lease/NAME and lease.coordination.k8s.io/NAME work too, as in kubectl.

Exit codes:
  0  success
  1  an error, a problem that doctor or audit found, a promise that demo saw broken, or a
     leader that stayed in an evacuated zone
  2  the command line is wrong
  3  refused: the step is not safe now, or --yes is missing; nothing was changed

If a command needs the ClusterRole zonelect-NAME, create it with
  %s

In scripts, use -o json with status, doctor, audit and migrate plan. 'kubectl options' lists the
flags of all commands, which are kubectl's own.`

func newRoot(env *environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-zonelect",
		Short: "Show who leads, and move leadership",
		Long:  fmt.Sprintf(rootLong, role("NAME").creation()),
		Example: `  kubectl zonelect demo                                       # try it on your own cluster
  kubectl zonelect status -n metal3-system                    # who leads
  kubectl zonelect doctor my-operator                         # why does nobody lead
  kubectl zonelect audit -A                                   # all elections, whatever runs them
  kubectl zonelect evacuate zone-a -A                         # leadership leaves a zone
  kubectl zonelect migrate plan my-operator                   # the next step of a migration`,
		Version:          ownVersion(),
		SilenceUsage:     true,
		SilenceErrors:    true,
		PersistentPreRun: func(*cobra.Command, []string) { env.begun = true },
		Annotations:      map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl zonelect"},
	}
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) { // with the examples first
		if c.HasExample() {
			c.Long, c.Example = c.Short+"\n\nExamples:\n"+c.Example+"\n\n"+c.Long, ""
		}
		help(c, args)
	})
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.SetIn(env.streams.In)
	root.SetOut(env.streams.Out)
	root.SetErr(env.streams.ErrOut)
	env.config.AddFlags(root.PersistentFlags())
	verbosity := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(verbosity)
	root.PersistentFlags().AddGoFlag(verbosity.Lookup("v"))
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		f.Hidden = !slices.Contains([]string{"namespace", "context", "kubeconfig"}, f.Name)
	})
	root.AddCommand(
		newStatus(env), newDoctor(env), newAudit(env), newHandover(env), newEvacuate(env), newRestore(env), newMigrate(env), newDemo(env),
	)
	return root
}

// release is the version of a release, which is its tag, too.
var release = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)

// ref is the tag of the repository that this program was built from, or else its branch.
func ref() string {
	if version := ownVersion(); release.MatchString(version) {
		return version
	}
	return "main"
}

// ownVersion is the version of the module, and devel if it was built from a checkout.
func ownVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		return cmp.Or(info.Main.Version, "devel")
	}
	return "devel"
}

// The exit codes, as the help of the root command lists them.
const (
	exitOK      = 0
	exitError   = 1
	exitUsage   = 2
	exitRefused = 3
	// exitInterrupted is that of shells after Ctrl-C.
	exitInterrupted = 130
)

// failure is an error with the exit code that it means.
type failure struct {
	error
	code int
}

func (f failure) Unwrap() error { return f.error }

// usage is the error of a command line that makes no sense.
func usage(format string, args ...any) error {
	return failure{fmt.Errorf(format, args...), exitUsage}
}

// refused is the error of a command that changed nothing, because the change would not be
// safe or --yes is missing.
func refused(format string, args ...any) error {
	return failure{fmt.Errorf(format, args...), exitRefused}
}
