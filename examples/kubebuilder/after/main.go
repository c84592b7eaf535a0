// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// This is an operator as kubebuilder generates it. The manager has its election.
package main

import (
	"flag"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/zonelect/zonelect/examples/controllers"
	"github.com/zonelect/zonelect/operator"
	"github.com/zonelect/zonelect/operator/ctrlruntime"
	// +kubebuilder:scaffold:imports
)

var (
	scheme   = runtime.NewScheme()
	setupLog = ctrl.Log.WithName("setup")
)

func init() {
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	// +kubebuilder:scaffold:scheme
}

func main() {
	var metricsAddr, probeAddr string
	var enableLeaderElection bool
	flag.StringVar(&metricsAddr, "metrics-bind-address", "0", "Address of the metrics, 0 for none.")
	flag.StringVar(&probeAddr, "health-probe-bind-address", ":8081", "Address of the probes.")
	flag.BoolVar(&enableLeaderElection, "leader-elect", false, "Have one of the replicas active.")
	opts := zap.Options{Development: true}
	opts.BindFlags(flag.CommandLine)
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&opts)))

	mgr, err := ctrlruntime.NewLasting(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metricsserver.Options{BindAddress: metricsAddr},
		HealthProbeBindAddress: probeAddr,
		LeaderElection:         enableLeaderElection,
		LeaderElectionID:       "d1f2a3b4.example.com",
	}, operator.Options{})
	if err != nil {
		setupLog.Error(err, "no manager")
		os.Exit(1)
	}
	if err := mgr.Lead(func(mgr ctrl.Manager) error {
		return (&controllers.ConfigMapReconciler{Client: mgr.GetClient()}).SetupWithManager(mgr)
	}); err != nil {
		setupLog.Error(err, "no controller", "controller", "ConfigMap")
		os.Exit(1)
	}
	// +kubebuilder:scaffold:builder

	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		setupLog.Error(err, "no health check")
		os.Exit(1)
	}
	if err := mgr.AddReadyzCheck("readyz", healthz.Ping); err != nil {
		setupLog.Error(err, "no ready check")
		os.Exit(1)
	}

	setupLog.Info("starting manager")
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		setupLog.Error(err, "the manager ended")
		os.Exit(1)
	}
}
