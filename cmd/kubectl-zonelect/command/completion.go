// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// patience bounds how long a user waits after pressing TAB.
const patience = 3 * time.Second

const completionLong = `Generates the completion script of a shell for kubectl-zonelect, or the program by which kubectl
completes "kubectl zonelect". That is the usual one: kubectl and its own completion are there, and
kubectl asks a program on the PATH named kubectl_complete-zonelect for what may come next. The
archives of a release have it. Krew does not install it. Then put it beside kubectl-zonelect:

  kubectl zonelect completion kubectl > ~/.krew/bin/kubectl_complete-zonelect
  chmod +x ~/.krew/bin/kubectl_complete-zonelect`

// KubectlComplete is the program that kubectl asks for completions of the plugin, if it is on
// the PATH as kubectl_complete-zonelect. Windows does not run it.
//
//go:embed kubectl_complete-zonelect
var KubectlComplete []byte

// addCompletion adds cobra's command, with kubectl among the shells.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		c.Short, c.Long = "Generate what completes commands in a shell or in kubectl", completionLong
		c.AddCommand(newCompletionOfKubectl(root))
	}
}

func newCompletionOfKubectl(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:               "kubectl",
		Short:             "Print the program by which kubectl completes this plugin",
		Long:              "Prints the program that kubectl runs to complete \"kubectl zonelect\".\nIt belongs on the PATH as kubectl_complete-zonelect, executable.",
		Args:              noArgument,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			_, err := root.OutOrStdout().Write(KubectlComplete)
			return failed(err)
		},
	}
}

// completeLocks completes the first argument with the names of locks: those that have a
// Lease, and leader-for-life locks that have none yet. What begins with lease/ goes on with it.
func completeLocks(env *environment) cobra.CompletionFunc {
	names := completeFirst(env, new(bool), func(f inspect.Election) []string { return []string{f.Name} }, legacyLocks)
	return func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		words, directive := names(c, args, begun)
		if kind, _, written := strings.Cut(begun, "/"); written {
			for i, name := range words {
				words[i] = kind + "/" + name
			}
		}
		return words, directive
	}
}

// completeFirst completes the first argument with words of the locks, and more.
func completeFirst(env *environment, everywhere *bool, of func(inspect.Election) []string, more ...func(context.Context, cluster) []string) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completeFrom(c, env, *everywhere, of, more...)
	}
}

// legacyLocks returns the leader-for-life locks of the namespace; none if it may
// not list ConfigMaps.
func legacyLocks(ctx context.Context, c cluster) []string {
	var names []string
	q := rawapi.Query{Resource: apierror.ConfigMaps, Namespace: c.namespace}
	_, err := rawapi.ListEach(ctx, c.Core, q, func() { names = nil }, func(e rawapi.Event[*corev1.ConfigMap]) {
		if ownerref.Recognize(e.Object).Kind == ownerref.Legacy {
			names = append(names, e.Object.Name)
		}
	})
	if err != nil {
		return nil
	}
	return names
}

// completeCandidates completes a flag with words from the presences of the named lock's
// candidates.
func completeCandidates(env *environment, says func(inspect.Candidate) string) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completeFrom(c, env, false, func(f inspect.Election) []string {
			var all []string
			for _, c := range f.Candidates {
				if f.Name == args[0] {
					all = append(all, says(c))
				}
			}
			return all
		})
	}
}

// completeNamespaces completes a flag with the namespaces, for those who may list them.
func completeNamespaces(env *environment) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(c.Context(), patience)
		defer cancel()
		on, err := env.cluster("", true)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var words []string
		q := rawapi.Query{Resource: apierror.Namespaces}
		_, err = rawapi.ListEach(ctx, on.Core, q, func() { words = nil }, func(e rawapi.Event[*corev1.Namespace]) { words = append(words, e.Object.Name) })
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		slices.Sort(words)
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// harmless are the words that no shell takes for more than a word. Scripts of kubectl up to 1.33
// let the shell expand what they are given, and anybody who may create a Lease writes them.
var harmless = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@/-]*$`)

// completeFrom completes with words from the locks, and more. It leaves out those that are not
// harmless.
func completeFrom(c *cobra.Command, env *environment, everywhere bool, of func(inspect.Election) []string, more ...func(context.Context, cluster) []string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	on, err := env.cluster("", everywhere)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	leases, err := on.Leases(ctx, on.namespace)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var words []string
	for _, f := range inspect.Among(leases.Items) {
		words = append(words, of(f)...)
	}
	for _, find := range more {
		words = append(words, find(ctx, on)...)
	}
	slices.Sort(words)
	words = slices.DeleteFunc(slices.Compact(words), func(word string) bool { return !harmless.MatchString(word) })
	return words, cobra.ShellCompDirectiveNoFileComp
}
