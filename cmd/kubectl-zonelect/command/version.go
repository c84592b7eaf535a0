// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"

	"github.com/zonelect/zonelect/internal/rawapi"
)

const versionLong = `Shows the version of kubectl-zonelect, and that of the API server if it answers
within 3 seconds. With --client it asks no cluster.`

// Versions are those of this program and of the API server, with kubectl's names.
type Versions struct {
	metav1.TypeMeta `json:",inline"`

	Client version.Info `json:"clientVersion"`
	// Server is nil if it was not asked, or did not answer.
	Server *version.Info `json:"serverVersion,omitempty"`
}

// DeepCopyObject makes it a runtime.Object; see LockStatus.
func (v *Versions) DeepCopyObject() apiruntime.Object { c := *v; return &c }

// versionCommand is one call of version.
type versionCommand struct {
	env     *environment
	printer printer
	client  bool
}

func newVersion(env *environment) *cobra.Command {
	v := &versionCommand{env: env}
	c := &cobra.Command{
		Use:               "version",
		Short:             "Show the versions of this program and of the API server",
		Long:              versionLong,
		Args:              noArgument,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, _ []string) error { return failed(v.run(c.Context())) },
	}
	c.Flags().BoolVar(&v.client, "client", false, "Show only the version of this program.")
	v.printer.addFlags(c)
	return c
}

func (v *versionCommand) run(ctx context.Context) error {
	if err := v.printer.complete(); err != nil {
		return err
	}
	versions := Versions{TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: "Versions"}, Client: ownVersion(buildInfo())}
	if !v.client {
		var err error
		if versions.Server, err = v.server(ctx); err != nil {
			v.env.tell("note: cannot tell the server's version: %v\n", err)
		}
	}
	if v.printer.forPeople() {
		return v.print(versions)
	}
	return v.printer.objects.PrintObj(&versions, v.env.streams.Out)
}

// server asks the API server; nil with an error if it does not answer.
func (v *versionCommand) server(ctx context.Context) (*version.Info, error) {
	all, err := v.env.connect()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	info, err := rawapi.ServerVersion(ctx, all.core)
	if err != nil {
		return nil, err
	}
	return &info, nil
}

func (v *versionCommand) print(versions Versions) error {
	text := "Client Version: " + versions.Client.GitVersion
	if c := versions.Client; c.GitCommit != "" {
		text += fmt.Sprintf(" (commit %s, %s)", c.GitCommit, c.GitTreeState)
	}
	if versions.Server != nil {
		text += "\nServer Version: " + versions.Server.GitVersion
	}
	_, err := fmt.Fprintln(v.env.streams.Out, text)
	return err
}

// buildInfo is the compiler's information about this program; nil if there is none.
func buildInfo() *debug.BuildInfo {
	info, _ := debug.ReadBuildInfo()
	return info
}

// ownVersion is the module's version, with the commit if it was built from a checkout.
func ownVersion(info *debug.BuildInfo) version.Info {
	v := version.Info{GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info != nil {
		v.GitVersion = info.Main.Version
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				v.GitCommit = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				v.GitTreeState = "dirty"
			case s.Key == "vcs.modified":
				v.GitTreeState = "clean"
			}
		}
	}
	v.GitVersion = cmp.Or(v.GitVersion, "(unknown)")
	return v
}
