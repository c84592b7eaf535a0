// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	promclient "github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/doctest"
	"github.com/zonelect/zonelect/internal/metrics"
	"github.com/zonelect/zonelect/operator"
)

func TestEachGoroutineIsListed(t *testing.T) { doctest.CheckGoroutines(t) }

// alone are the options of an election that needs no API server.
var alone = operator.Options{Disabled: true, Logger: logr.FromSlogHandler(slog.DiscardHandler)}

// scrape returns the lines of an endpoint's answer that are not comments.
func scrape(t *testing.T, address, accept string) (lines []string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s: %s", resp.Status, text)
	}
	for s := bufio.NewScanner(resp.Body); s.Scan(); {
		if !strings.HasPrefix(s.Text(), "#") {
			lines = append(lines, s.Text())
		}
	}
	return lines
}

func serve(t *testing.T) *Endpoint {
	t.Helper()
	e, err := Serve(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if e.server.ConnState == nil {
		t.Error("the server has no bounds: use package httpserver")
	}
	return e
}

func TestAnElectionIsShownWhileItRuns(t *testing.T) {
	endpoint := serve(t)
	o := alone
	o.MeterProvider = endpoint
	err := operator.Run(t.Context(), "my-operator", func(context.Context, election.Term) error {
		lines := scrape(t, endpoint.Address().String(), "text/plain")
		for _, want := range []string{
			`election_leader{election_lock_kind="Memory",election_lock_name="my-operator"} 1`,
			`leader_election_master_status{name="my-operator"} 1`,
		} {
			if !slices.Contains(lines, want) {
				t.Errorf("no line is %s", want)
			}
		}
		for _, want := range []string{"election_term_time_left_seconds{", "election_candidates{", "go_goroutines ", "process_open_fds "} {
			if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, want) }) {
				t.Errorf("no line begins with %s", want)
			}
		}
		return nil
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range scrape(t, endpoint.Address().String(), "text/plain") {
		if strings.HasPrefix(line, "election_term_time_left") || strings.HasPrefix(line, "election_leader") && !strings.HasSuffix(line, " 0") {
			t.Errorf("after the end: %s", line)
		}
	}
	if err := endpoint.Close(); err != nil {
		t.Error(err)
	}
}

func TestRunLeavesNothing(t *testing.T) {
	free := serve(t)
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	address := free.Address().String()
	for range 2 { // the second could not listen if the first still did
		done := errors.New("done")
		work := func(context.Context, election.Term) error {
			if len(scrape(t, address, "text/plain")) == 0 {
				t.Error("there are no metrics")
			}
			return done
		}
		if err := Run(t.Context(), address, "my-operator", work, alone); !errors.Is(err, done) {
			t.Errorf("Run: %v", err)
		}
	}
}

func TestAFailoverLeadsToItsTrace(t *testing.T) {
	endpoint := serve(t)
	defer endpoint.Close()
	o := alone
	o.MeterProvider, o.TracerProvider = endpoint, sdktrace.NewTracerProvider()
	err := operator.Run(t.Context(), "my-operator", func(context.Context, election.Term) error {
		lines := scrape(t, endpoint.Address().String(), "application/openmetrics-text; version=1.0.0")
		if !slices.ContainsFunc(lines, func(line string) bool {
			return strings.HasPrefix(line, "election_failover_duration_seconds_bucket") && strings.Contains(line, "trace_id=")
		}) {
			t.Errorf("no failover has an exemplar: %s", strings.Join(lines, "\n"))
		}
		return nil
	}, o)
	if err != nil {
		t.Error(err)
	}
}

func TestRunRefusesWhatItCannotDo(t *testing.T) {
	taken := serve(t)
	defer taken.Close()
	never := func(context.Context, election.Term) error { t.Error("it leads"); return nil }
	err := Run(t.Context(), taken.Address().String(), "my-operator", never, alone)
	if err == nil || !strings.Contains(err.Error(), "listening for Prometheus") {
		t.Errorf("with a port that is taken: %v", err)
	}
	o := alone
	o.MeterProvider = taken
	if err := Run(t.Context(), "127.0.0.1:0", "my-operator", never, o); !errors.Is(err, ErrMeterProvider) {
		t.Errorf("with a provider: %v", err)
	}
}

// instruments returns those of a registry's provider.
func instruments(t *testing.T, registry *promclient.Registry) (*metrics.Instruments, *sdkmetric.MeterProvider) {
	t.Helper()
	provider, err := NewProvider(registry)
	if err != nil {
		t.Fatal(err)
	}
	i, err := metrics.New(provider)
	if err != nil {
		t.Fatal(err)
	}
	return i, provider
}

var row = regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\|.*\\| `([a-z_]+)` \\|$")

// TestTheNamesInPrometheusAreThoseOfTheReference for every instrument.
func TestTheNamesInPrometheusAreThoseOfTheReference(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for _, r := range row.FindAllStringSubmatch(string(text), -1) {
		want[r[2]] = true
	}
	registry := promclient.NewRegistry()
	i, provider := instruments(t, registry)
	ctx := t.Context()
	for _, c := range []metric.Int64Counter{i.TermEnds, i.Overruns} {
		c.Add(ctx, 1)
	}
	i.Leader.Record(ctx, 1)
	i.MasterStatus.Record(ctx, 1)
	i.Renewals.Record(ctx, 1)
	i.Failovers.Record(ctx, 1)
	if _, err := provider.Meter(metrics.Scope).RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveFloat64(i.TimeLeft, 1)
		o.ObserveInt64(i.Candidates, 1)
		o.ObserveInt64(i.Phase, 1)
		return nil
	}, i.TimeLeft, i.Candidates, i.Phase); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if !want[f.GetName()] {
			t.Errorf("the reference has no %s", f.GetName())
		}
		delete(want, f.GetName())
		for _, m := range f.GetMetric() {
			if len(m.GetLabel()) > 0 {
				t.Errorf("%s has labels that nobody gave it: %v", f.GetName(), m.GetLabel())
			}
		}
	}
	for name := range want {
		t.Errorf("the reference has %s, Prometheus has not", name)
	}
}

// TestClientGosMetricKeepsItsName in a registry that has it, such as controller-runtime's.
func TestClientGosMetricKeepsItsName(t *testing.T) {
	registry := promclient.NewRegistry()
	gauge := promclient.NewGaugeVec(promclient.GaugeOpts{Name: masterStatus, Help: "Another help."}, []string{"name"})
	registry.MustRegister(gauge)
	gauge.WithLabelValues("lock").Set(1)
	i, _ := instruments(t, registry)
	i.Leader.Record(t.Context(), 1)
	i.MasterStatus.Record(t.Context(), 1)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != 2 || families[1].GetName() != masterStatus || families[1].GetHelp() != "Another help." {
		t.Errorf("the registry has %v", families)
	}
}

// TestARegistryHasOneProvider: two would have the same metrics, and every scrape would fail.
func TestARegistryHasOneProvider(t *testing.T) {
	registry := promclient.NewRegistry()
	for _, lock := range []string{"a", "b"} {
		i, _ := instruments(t, registry)
		i.MasterStatus.Record(t.Context(), 1, metric.WithAttributes(metrics.KeyMasterName.String(lock)))
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != 2 {
		t.Errorf("the registry has %v, %v", families, err)
	}
}
