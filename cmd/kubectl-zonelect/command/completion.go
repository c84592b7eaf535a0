// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// patience bounds what somebody waits for after pressing TAB.
const patience = 3 * time.Second

const completionLong = `Generates the completion script of a shell for kubectl-zonelect.

For "kubectl zonelect" itself, kubectl asks a program named
kubectl_complete-zonelect for what comes next: put one on the PATH that says

  #!/bin/sh
  exec kubectl-zonelect __complete "$@"`

// describeCompletion says in the help of completion how kubectl does it.
func describeCompletion(root *cobra.Command) {
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Long = completionLong
		}
	}
}

// completeLocks completes the names of locks for the first so many arguments.
func completeLocks(env *environment, most int) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(c.Context(), patience)
		defer cancel()
		names, err := lockNames(ctx, env)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// lockNames lists the locks of the namespace: those that are on a Lease, and
// those of leader-for-life that have none yet.
func lockNames(ctx context.Context, env *environment) ([]string, error) {
	namespace, err := env.namespace()
	if err != nil {
		return nil, err
	}
	all, err := env.connect()
	if err != nil {
		return nil, err
	}
	leases, err := rawapi.List[coordinationv1.LeaseList](ctx, all.coordination, apierror.Leases, namespace, "")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range inspect.Among(leases.Items) {
		names = append(names, f.Name)
	}
	// Who may not list ConfigMaps is helped with what there is.
	if maps, err := rawapi.List[corev1.ConfigMapList](ctx, all.core, apierror.ConfigMaps, namespace, ""); err == nil {
		for i := range maps.Items {
			if ownerref.Recognize(&maps.Items[i]).Kind == ownerref.Legacy {
				names = append(names, maps.Items[i].Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// completeCandidates completes a flag with what the candidates for the lock that
// is named say of themselves.
func completeCandidates(env *environment, says func(inspect.Candidate) string) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completeFrom(c, env, env.namespace, func(f inspect.Election) []string {
			if f.Name != args[0] {
				return nil
			}
			var all []string
			for _, c := range f.Candidates {
				all = append(all, says(c))
			}
			return all
		})
	}
}

// completeZones completes the first argument with zones.
func (e *evacuation) completeZones(of func(inspect.Election) []string) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		namespace := e.env.namespace
		if e.everywhere {
			namespace = func() (string, error) { return "", nil }
		}
		return completeFrom(c, e.env, namespace, of)
	}
}

// completeFrom completes with what the locks of a namespace say.
func completeFrom(c *cobra.Command, env *environment, in func() (string, error), of func(inspect.Election) []string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	namespace, err := in()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	all, err := env.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	leases, err := rawapi.List[coordinationv1.LeaseList](ctx, all.coordination, apierror.Leases, namespace, "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var words []string
	for _, f := range inspect.Among(leases.Items) {
		words = append(words, of(f)...)
	}
	slices.Sort(words)
	words = slices.DeleteFunc(slices.Compact(words), func(word string) bool { return word == "" })
	return words, cobra.ShellCompDirectiveNoFileComp
}
