// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command controller-runtime is an operator on controller-runtime. Its informer runs on all
// replicas, and its reconciler only on the leader. The guard refuses the reconciler's writes once
// its replica no longer leads.
package main

import (
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/zonelect/zonelect/examples/controllers"
	"github.com/zonelect/zonelect/operator"
	"github.com/zonelect/zonelect/operator/ctrlruntime"
)

func main() {
	probes := flag.String("probes", ":0", "address of the probes")
	flag.Parse()
	ctrl.SetLogger(logr.FromSlogHandler(slog.Default().Handler()))
	mgr, err := ctrlruntime.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		LeaderElection:         true,
		LeaderElectionID:       "controller-runtime",
		HealthProbeBindAddress: *probes,
		Metrics:                metricsserver.Options{BindAddress: "0"},
	}, operator.Options{})
	check(err)
	guarded, err := mgr.GuardedClient()
	check(err)
	check((&controllers.ConfigMapReconciler{Client: guarded}).SetupWithManager(mgr))
	check(mgr.AddHealthzCheck("election", mgr.Election.Alive))
	check(mgr.Start(ctrl.SetupSignalHandler()))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
