// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ctrlruntime

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/metric/noop"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/operator"
)

// later are the metrics of alerts that a manager has only when there is something to tell.
var later = map[string]bool{
	"election_renewal_duration_seconds_count": true, "election_stop_overruns_total": true,
	"election_migration_phase": true,
}

// metricsOf returns what the endpoint of a manager says while it leads.
func metricsOf(t *testing.T, name string, o operator.Options) string {
	t.Helper()
	for variable, value := range map[string]string{"POD_NAME": "op-1", "POD_UID": "uid", "NODE_NAME": ""} {
		t.Setenv(variable, value)
	}
	config, stop := apitest.Run(map[string]any{"/api/v1/namespaces/ns/pods/op-1": map[string]any{
		"metadata": map[string]any{"name": "op-1", "namespace": "ns", "uid": "uid"},
	}})
	defer stop()
	free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
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

// TestAManagerShowsWhatTheAlertsAreAbout with nothing but NewManager, and so does the next one of
// the process.
func TestAManagerShowsWhatTheAlertsAreAbout(t *testing.T) {
	rules, err := os.ReadFile("../../config/monitoring/prometheus/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`\b(election_[a-z_]+)[{\[]`).FindAllStringSubmatch(string(rules), -1)
	if len(names) == 0 {
		t.Fatal("the alerts are about nothing")
	}
	for _, lock := range []string{"first", "second"} {
		text := metricsOf(t, lock, operator.Options{})
		for _, name := range names {
			if !later[name[1]] && !strings.Contains(text, "\n"+name[1]+"{") {
				t.Errorf("%s: there is no %s", lock, name[1])
			}
		}
		for _, line := range []string{
			`election_leader{election_lock_kind="Lease",election_lock_name="` + lock + `",k8s_namespace_name="ns"} 1`,
			`leader_election_master_status{name="` + lock + `"} 1`,
		} {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("no line is %s", line)
			}
		}
	}
}

// TestAManagerWithAProviderShowsItsMetricsThereAlone: one that does nothing switches them off.
func TestAManagerWithAProviderShowsItsMetricsThereAlone(t *testing.T) {
	if text := metricsOf(t, "third", operator.Options{MeterProvider: noop.NewMeterProvider()}); strings.Contains(text, `election_lock_name="third"`) {
		t.Errorf("the endpoint says:\n%s", text)
	}
}
