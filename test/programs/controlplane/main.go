// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command controlplane is a Kubernetes control plane in one binary: etcd,
// kube-apiserver and kube-controller-manager, compiled from their Go modules,
// so that tests need neither a download of binaries nor a cluster.
//
// The first argument names the role, the others are that program's own flags:
//
//	controlplane etcd --data-dir DIR ...
//	controlplane apiserver --etcd-servers URL ...
//	controlplane kcm --kubeconfig FILE ...
//
// It is a module of its own: k8s.io/kubernetes needs every staging module
// replaced, and none of that may reach the library's go.mod. The package
// test/kit/testbed builds and runs it.
//
// go.mod is the newest version of Kubernetes. Each VERSION.mod beside it is
// another, built with -modfile: the go.mod of that release, with its staging
// modules replaced by those of the same version, after
// GOWORK=off go mod tidy -modfile=VERSION.mod.
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // the JSON log format of the two kube programs
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client-go's metrics on /metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // build information on /metrics
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	kcm "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

// usageStatus is the exit status of a call that could not be understood.
const usageStatus = 2

// roles maps the first argument to the program it stands for. A role gets its
// program name and its flags, and returns an exit status.
var roles = map[string]func(name string, flags []string) int{
	"etcd": func(name string, flags []string) int {
		etcdmain.Main(append([]string{name}, flags...))
		return 0
	},
	"apiserver": func(string, []string) int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kcm":       func(string, []string) int { return cli.Run(kcm.NewControllerManagerCommand()) },
}

func main() {
	os.Exit(run(os.Args))
}

// run runs the role that the first argument names. The kube programs read their
// flags from os.Args, so the role's name is removed from it first.
func run(args []string) int {
	if len(args) < 2 {
		return usage("no role was given")
	}
	name, flags := args[1], args[2:]
	role, known := roles[name]
	if !known {
		return usage(fmt.Sprintf("there is no role %q", name))
	}
	os.Args = append([]string{name}, flags...)
	return role(name, flags)
}

// usage prints to stderr what was wrong and what would be right.
func usage(problem string) int {
	names := make([]string, 0, len(roles))
	for name := range roles {
		names = append(names, name)
	}
	slices.Sort(names)
	fmt.Fprintf(os.Stderr, "controlplane: %s\nusage: controlplane %s [flags of that program]\n", problem, strings.Join(names, "|"))
	return usageStatus
}
