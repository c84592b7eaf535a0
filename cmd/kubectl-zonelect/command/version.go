// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"

	"github.com/zonelect/zonelect/internal/rawapi"
)

const versionLong = `The command shows the version of kubectl-zonelect, its commit and module, the versions of zonelect, Go and
client-go that it was built with, and the API server's if it answers within 3 seconds. A program that
go install has built does not know its commit. "devel" is a build from a checkout.`

// devel is the version of a program that was not told its own.
const devel = "devel"

const (
	clientGoModule = "k8s.io/client-go" // talks to API servers
	libraryModule  = "github.com/zonelect/zonelect"
)

// Versions are those of this program and of the API server, with kubectl's names.
type Versions struct {
	metav1.TypeMeta `json:",inline"`

	Client version.Info `json:"clientVersion"`
	// Module is this program's module; empty if the compiler did not tell.
	Module string `json:"module,omitempty"`
	// Library is the version of zonelect's library. It differs from the client's if go install
	// was asked for a commit that is not a release.
	Library string `json:"libraryVersion"`
	// ClientGo is the version of client-go; empty if the compiler did not tell.
	ClientGo string `json:"clientGoVersion,omitempty"`
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
	info := buildInfo()
	own := ownVersion(info)
	versions := Versions{
		TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: "Versions"}, Client: own, Module: modulePath(info),
		Library: libraryVersion(info, own.GitVersion), ClientGo: moduleVersion(info, clientGoModule),
	}
	if !v.client {
		var err error
		if versions.Server, err = v.server(ctx); err != nil {
			v.env.tell("note: cannot tell the server's version: %v\n", err)
		}
	}
	if v.printer.forPeople() {
		return v.print(versions)
	}
	return printObject(v.env.streams.Out, v.printer.objects, &versions)
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
	text := &strings.Builder{}
	tell(text, "Client Version: %s", versions.Client.GitVersion)
	if c := versions.Client; c.GitCommit != "" {
		tell(text, " (commit %s, %s)", c.GitCommit, c.GitTreeState)
	}
	if versions.Module != "" {
		tell(text, "\nModule: %s", versions.Module)
	}
	tell(text, "\nLibrary Version: %s\nGo Version: %s\n", versions.Library, versions.Client.GoVersion)
	if versions.ClientGo != "" {
		tell(text, "client-go Version: %s\n", versions.ClientGo)
	}
	if versions.Server != nil {
		tell(text, "Server Version: %s\n", versions.Server.GitVersion)
	}
	_, err := io.WriteString(v.env.streams.Out, text.String())
	return err
}

// buildInfo is the compiler's information about this program; nil if there is none.
func buildInfo() *debug.BuildInfo {
	info, _ := debug.ReadBuildInfo()
	return info
}

// patience bounds how long a user waits for the API server's version.
const patience = 3 * time.Second

// ownVersion is the version of the module, with the commit if it was built from a checkout.
func ownVersion(info *debug.BuildInfo) version.Info {
	v := version.Info{GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info != nil {
		if info.Main.Version != "(devel)" {
			v.GitVersion = info.Main.Version
		}
		v.GitCommit, v.GitTreeState = checkout(info)
	}
	v.GitVersion = cmp.Or(v.GitVersion, devel)
	return v
}

// checkout is the commit that the compiler saw, and whether there were changes; empty if it
// saw none.
func checkout(info *debug.BuildInfo) (commit, state string) {
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			state = "dirty"
		case s.Key == "vcs.modified":
			state = "clean"
		}
	}
	return commit, state
}

// modulePath is the module of this program; empty if it is not known.
func modulePath(info *debug.BuildInfo) string {
	if info == nil {
		return ""
	}
	return info.Main.Path
}

// libraryVersion is the version of the library in this program. Both have the same version if the
// library came from the same checkout.
func libraryVersion(info *debug.BuildInfo, own string) string {
	if v := moduleVersion(info, libraryModule); v != "" && v != "(devel)" {
		return v
	}
	return own
}

// moduleVersion is the version of a module in this program; empty if it is not known.
func moduleVersion(info *debug.BuildInfo, module string) string {
	if info == nil {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == module && m.Replace != nil {
			return m.Replace.Version
		}
		if m.Path == module {
			return m.Version
		}
	}
	return ""
}
