// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"bufio"
	"context"
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
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/operator"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// alone are the options of an election that needs no API server.
var alone = operator.Options{Disabled: true, Logger: logr.FromSlogHandler(slog.DiscardHandler)}

// scrape returns the lines of an endpoint's answer that are not comments.
func scrape(t *testing.T, address, accept string) (lines []string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+address+"/metrics", nil)
	must(t, err)
	req.Header.Set("Accept", accept)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	must(t, err)
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
	must(t, err)
	return e
}

func TestAnElectionIsShownWhileItRuns(t *testing.T) {
	endpoint := serve(t)
	o := alone
	o.MeterProvider = endpoint
	must(t, operator.Run(t.Context(), "my-operator", func(context.Context, election.Term) error {
		lines := scrape(t, endpoint.Address().String(), "text/plain")
		const want = `election_leader{election_lock_kind="Memory",election_lock_name="my-operator"} 1`
		if !slices.Contains(lines, want) {
			t.Errorf("no line is %s", want)
		}
		for _, want := range []string{"election_term_time_left_seconds{", "go_goroutines ", "process_open_fds "} {
			if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, want) }) {
				t.Errorf("no line begins with %s", want)
			}
		}
		return nil
	}, o))
	for _, line := range scrape(t, endpoint.Address().String(), "text/plain") {
		if strings.HasPrefix(line, "election_term_time_left") || strings.HasPrefix(line, "election_leader") && !strings.HasSuffix(line, " 0") {
			t.Errorf("after the end: %s", line)
		}
	}
	must(t, endpoint.Close())
}

func TestCloseLeavesNothing(t *testing.T) {
	first := serve(t)
	address := first.Address().String()
	for range 2 { // the second could not listen if the first still did
		must(t, first.Close())
		var err error
		first, err = Serve(t.Context(), address)
		must(t, err)
		if len(scrape(t, address, "text/plain")) == 0 {
			t.Error("there are no metrics")
		}
	}
	if _, err := Serve(t.Context(), address); err == nil || !strings.Contains(err.Error(), "listening for Prometheus") {
		t.Errorf("with a port that is taken: %v", err)
	}
	must(t, first.Close())
}

func TestAFailoverLeadsToItsTrace(t *testing.T) {
	endpoint := serve(t)
	defer endpoint.Close()
	o := alone
	o.MeterProvider, o.TracerProvider = endpoint, sdktrace.NewTracerProvider()
	must(t, operator.Run(t.Context(), "my-operator", func(context.Context, election.Term) error {
		lines := scrape(t, endpoint.Address().String(), "application/openmetrics-text; version=1.0.0")
		if !slices.ContainsFunc(lines, func(line string) bool {
			return strings.HasPrefix(line, "election_failover_duration_seconds_bucket") && strings.Contains(line, "trace_id=")
		}) {
			t.Errorf("no failover has an exemplar: %s", strings.Join(lines, "\n"))
		}
		return nil
	}, o))
}

var row = regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| (?:observable )?([a-z]+) \\| `?([^`|]*)`? ?\\|.*\\| `([a-z_]+)` \\|$")

// TestTheNamesInPrometheusAreThoseOfTheReference for instruments of each name, kind and unit there.
// test/suites/telemetry checks that the election has these.
func TestTheNamesInPrometheusAreThoseOfTheReference(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	must(t, err)
	registry := promclient.NewRegistry()
	provider, err := NewProvider(registry)
	must(t, err)
	want, meter, ctx := map[string]bool{}, provider.Meter("test"), t.Context()
	for _, r := range row.FindAllStringSubmatch(string(text), -1) {
		name, kind, unit := r[1], r[2], metric.WithUnit(r[3])
		want[r[4]] = true
		var err error
		switch kind {
		case "counter":
			var i metric.Int64Counter
			i, err = meter.Int64Counter(name, unit)
			i.Add(ctx, 1)
		case "gauge":
			var i metric.Int64Gauge
			i, err = meter.Int64Gauge(name, unit)
			i.Record(ctx, 1)
		case "histogram":
			var i metric.Float64Histogram
			i, err = meter.Float64Histogram(name, unit)
			i.Record(ctx, 1)
		}
		must(t, err)
	}
	if len(want) < 8 {
		t.Errorf("the reference has only %v", want)
	}
	families, err := registry.Gather()
	must(t, err)
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

// TestARegistryHasOneProvider: two would have the same metrics, and every scrape would fail.
func TestARegistryHasOneProvider(t *testing.T) {
	registry := promclient.NewRegistry()
	for range 2 {
		provider, err := NewProvider(registry)
		must(t, err)
		leader, err := provider.Meter("test").Int64Gauge("election.leader")
		must(t, err)
		leader.Record(t.Context(), 1)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != 1 {
		t.Errorf("the registry has %v, %v", families, err)
	}
}
