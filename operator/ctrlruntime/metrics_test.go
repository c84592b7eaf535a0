// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ctrlruntime

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/metric/noop"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/operator"
)

// metricsOf returns what the endpoint of a manager says while it leads.
func metricsOf(t *testing.T, name string, o operator.Options) string {
	t.Helper()
	config, stop := apitest.Run(nil)
	defer stop()
	o.Self = self.Self
	free := httptest.NewServer(nil)
	free.Close()
	address := free.Listener.Addr().String()
	mgr, err := NewManager(config, ctrl.Options{
		Metrics:        metricsserver.Options{BindAddress: address},
		LeaderElection: true, LeaderElectionID: name, LeaderElectionNamespace: "ns",
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var text []byte
	if err := mgr.Add(manager.RunnableFunc(func(context.Context) error {
		defer end()
		resp, err := http.Get("http://" + address + "/metrics") //nolint:noctx // the manager has started it
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("the endpoint says %s", resp.Status)
		}
		text, err = io.ReadAll(resp.Body)
		return err
	})); err != nil {
		t.Fatal(err)
	}
	if err := mgr.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestAManagerShowsItsElection with nothing but NewManager, and so does the next one of the process. One with a
// provider shows it there alone.
func TestAManagerShowsItsElection(t *testing.T) {
	for lock, o := range map[string]operator.Options{"first": {}, "second": {}, "third": {MeterProvider: noop.NewMeterProvider()}} {
		text := metricsOf(t, lock, o)
		ours := `election_leader{election_lock_kind="Lease",election_lock_name="` + lock + `",k8s_namespace_name="ns"} 1`
		clientGos := `leader_election_master_status{name="` + lock + `"} 1`
		if strings.Contains(text, "\n"+ours+"\n") != (o.MeterProvider == nil) || !strings.Contains(text, "\n"+clientGos+"\n") {
			t.Errorf("is there %s, and %s, in\n%s", ours, clientGos, text)
		}
	}
}
