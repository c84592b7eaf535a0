// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"

	"github.com/zonelect/zonelect/internal/rawapi"
)

// Versions are those of this program and of the API server, with kubectl's names.
type Versions struct {
	metav1.TypeMeta `json:",inline"`

	Client version.Info `json:"clientVersion"`
	// Server is nil if it was not asked, or did not answer.
	Server *version.Info `json:"serverVersion,omitempty"`
}

// DeepCopyObject makes it a runtime.Object; see LockStatus.
func (v *Versions) DeepCopyObject() apiruntime.Object { c := *v; return &c }

// serverPatience bounds how long a user waits for the API server's version.
const serverPatience = 3 * time.Second

func newVersion(env *environment) *cobra.Command {
	var p printer
	own := false
	c := &cobra.Command{
		Use:               "version",
		Short:             "Show the versions of this program and of the API server",
		Long:              `"devel" is a build from a checkout. 'go version -m' lists the modules of the program.`,
		Args:              noArgument,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			err := p.complete()
			if err != nil {
				return err
			}
			all := Versions{TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: "Versions"}, Client: ownVersion()}
			if !own {
				if all.Server, err = env.serverVersion(c.Context()); err != nil {
					env.tell("note: cannot tell the server's version: %v\n", err)
				}
			}
			if p.objects != nil {
				return failed(printObject(env.streams.Out, p.objects, &all))
			}
			tell(env.streams.Out, "Client Version: %s\nGo Version: %s\n", all.Client.GitVersion, all.Client.GoVersion)
			if all.Server != nil {
				tell(env.streams.Out, "Server Version: %s\n", all.Server.GitVersion)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&own, "client", false, "Show only the version of this program.")
	p.addFlags(c)
	return c
}

func (e *environment) serverVersion(ctx context.Context) (*version.Info, error) {
	all, err := e.connect()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, serverPatience)
	defer cancel()
	info, err := rawapi.ServerVersion(ctx, all.core)
	if err != nil {
		return nil, err
	}
	return &info, nil
}

// ownVersion is the version of the module, and devel if it was built from a checkout.
func ownVersion() version.Info {
	v := version.Info{GitVersion: "devel", GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		v.GitVersion = cmp.Or(info.Main.Version, v.GitVersion)
	}
	return v
}
