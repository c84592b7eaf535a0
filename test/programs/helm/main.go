// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command helm is Helm itself, compiled from its Go module, so that tests lint, render and install
// the chart as users do.
//
// It is a module of its own, so that what it depends on raises no version of other modules.
package main

import (
	"fmt"
	"os"

	helm "helm.sh/helm/v4/pkg/cmd"
)

func main() {
	root, err := helm.NewRootCmd(os.Stdout, os.Args[1:], helm.SetupLogging)
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
	if root.Execute() != nil { // it has been printed
		os.Exit(1)
	}
}
