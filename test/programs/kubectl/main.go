// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl is Kubernetes' own, compiled from its Go module, so that tests can run the commands of the documents.
// It is a module of its own, because nothing else needs what kubectl depends on.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
)

func main() {
	os.Exit(cli.Run(cmd.NewDefaultKubectlCommand()))
}
