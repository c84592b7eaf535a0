// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// This is an operator as operator-sdk generated it: it leads for life, and runs a
// controller-runtime manager that has no election.
package main

import (
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/examples/controllers"
	"github.com/zonelect/zonelect/operator"
)

var log = ctrl.Log.WithName("cmd")

func main() {
	ctrl.SetLogger(zap.New(zap.UseDevMode(true)))

	namespace, found := os.LookupEnv("WATCH_NAMESPACE")
	if !found {
		namespace = os.Getenv("POD_NAMESPACE")
	}
	cfg, err := ctrl.GetConfig()
	if err != nil {
		log.Error(err, "no way to the API server")
		os.Exit(1)
	}

	ctx := ctrl.LoggerInto(ctrl.SetupSignalHandler(), log)
	// Become the leader before everything else.
	leading, done, err := operator.Become(ctx, "my-operator-lock")
	if err != nil {
		if ctx.Err() != nil {
			return // told to end before it led
		}
		log.Error(err, "cannot become the leader")
		os.Exit(1)
	}
	term, _ := election.TermFromContext(leading)
	cfg.Wrap(term.Guard) // refuses the writes of a deposed leader

	mgr, err := manager.New(cfg, manager.Options{
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		log.Error(err, "no manager")
		os.Exit(1)
	}
	if err := (&controllers.ConfigMapReconciler{Client: mgr.GetClient()}).SetupWithManager(mgr); err != nil {
		log.Error(err, "no controller")
		os.Exit(1)
	}

	log.Info("Starting")
	if err := mgr.Start(leading); err != nil {
		log.Error(err, "the manager ended")
		os.Exit(1)
	}
	done() // all work has stopped: the next candidate may lead at once
}
