// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl is Kubernetes' own, compiled from its Go module, so that tests run the plugin
// as users do: kubectl finds it on the PATH, and asks it for completions.
//
// It is a module of its own, so that what it depends on raises no version of other modules.
package main

import (
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
