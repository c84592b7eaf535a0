// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command controller-runtime is an operator on controller-runtime. Its informer
// and its webhook run on all replicas, and its reconciler only on the leader. The guard
// refuses the reconciler's writes once its replica no longer leads.
package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/cert"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/zonelect/zonelect/examples/controllers"
	"github.com/zonelect/zonelect/operator"
	"github.com/zonelect/zonelect/operator/ctrlruntime"
)

func main() {
	port := flag.Int("webhook-port", 9443, "port of the webhook")
	probes := flag.String("probes", ":0", "address of the probes")
	flag.Parse()
	ctrl.SetLogger(logr.FromSlogHandler(slog.Default().Handler()))
	mgr, err := ctrlruntime.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		LeaderElection:         true,
		LeaderElectionID:       "controller-runtime",
		HealthProbeBindAddress: *probes,
		Metrics:                metricsserver.Options{BindAddress: "0"},
		WebhookServer:          webhook.NewServer(webhook.Options{Port: *port, TLSOpts: []func(*tls.Config){selfSigned}}),
	}, operator.Options{})
	check(err)
	guarded, err := mgr.GuardedClient()
	check(err)
	check((&controllers.ConfigMapReconciler{Client: guarded}).SetupWithManager(mgr))
	mgr.GetWebhookServer().Register("/validate", &webhook.Admission{Handler: admission.HandlerFunc(validate)})
	check(mgr.AddHealthzCheck("election", mgr.Election.Alive))
	check(mgr.Start(ctrl.SetupSignalHandler()))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// validate is the webhook.
func validate(_ context.Context, req admission.Request) admission.Response {
	if req.Name == "forbidden" {
		return admission.Denied("no ConfigMap has that name here")
	}
	return admission.Allowed("")
}

// selfSigned is only for the example: in a cluster, leave it out and mount the
// certificate.
func selfSigned(c *tls.Config) {
	pem, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	check(err)
	pair, err := tls.X509KeyPair(pem, key)
	check(err)
	c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }
}
