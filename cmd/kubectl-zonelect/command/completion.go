// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"slices"
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

const completionLong = `Generates the completion script of a shell for kubectl-zonelect.

To complete "kubectl zonelect", kubectl runs a program named kubectl_complete-zonelect.
Put one on the PATH that says

  #!/bin/sh
  exec kubectl-zonelect __complete "$@"`

// addCompletion adds cobra's command, with help that shows how to use it with kubectl.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		c.Long = completionLong
	}
}

// completeLocks completes the first argument with the names of locks: those that have a
// Lease, and leader-for-life locks that have none yet.
func completeLocks(env *environment) cobra.CompletionFunc {
	return completeFirst(env, new(bool), func(f inspect.Election) []string { return []string{f.Name} }, legacyLocks)
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
	maps, err := rawapi.List[corev1.ConfigMapList](ctx, c.Core, apierror.ConfigMaps, c.namespace, "")
	if err != nil {
		return nil
	}
	var names []string
	for i := range maps.Items {
		if ownerref.Recognize(&maps.Items[i]).Kind == ownerref.Legacy {
			names = append(names, maps.Items[i].Name)
		}
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

// completeFrom completes with words from the locks, and more.
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
	words = slices.DeleteFunc(slices.Compact(words), func(word string) bool { return word == "" })
	return words, cobra.ShellCompDirectiveNoFileComp
}
