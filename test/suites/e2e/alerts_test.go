// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

package e2e_test

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// observed is candidates that a Prometheus scrapes.
type observed struct {
	*testbed.Testbed
	*prometheus
	ctx  context.Context
	seen map[string]bool // the alerts that have fired at any time
}

func newObserved(t *testing.T, patient time.Duration) *observed {
	t.Helper()
	program := findPrometheus(t)
	b := trial.Bed(t, testbed.Config{Zones: threeZones, Network: testbed.Links})
	ctx := patience(t, patient)
	return &observed{b, startPrometheus(t, ctx, b, program), ctx, map[string]bool{}}
}

// enter starts a candidate in a pod, and has it scraped.
func (o *observed) enter(t *testing.T, zone, lock, name string, args ...string) *trial.Seat {
	t.Helper()
	pod, err := o.Cluster.AddPod(o.ctx, zone, name, "default", nil)
	must(t, err)
	s := start(t, o.Testbed, zone, lock, name, append(args, "--metrics-address", "127.0.0.1:0",
		"--pod-name", name, "--pod-uid", string(pod.UID), "--node-name", pod.Spec.NodeName)...)
	e, err := s.Await(o.ctx, "measured", time.Time{})
	must(t, err)
	o.scrape(t, e.Address, name)
	return s
}

// leads starts a candidate that leads.
func (o *observed) leads(t *testing.T, zone, lock, name string, args ...string) *trial.Seat {
	t.Helper()
	s := o.enter(t, zone, lock, name, args...)
	_, err := s.Await(o.ctx, "leading", time.Time{})
	must(t, err)
	return s
}

// awaits waits until an alert fires or clears, and says how long that took.
func (o *observed) awaits(t *testing.T, name string, fires bool, since time.Time) {
	t.Helper()
	what := map[bool]string{true: "fires", false: "clears"}[fires]
	o.until(t, o.ctx, name+" "+what, func() bool {
		all := o.alerts(t, o.ctx, "firing")
		for a := range all {
			o.seen[a] = true
		}
		_, is := all[name]
		return is == fires
	})
	t.Logf("%s %s after %v", name, what, time.Since(since).Round(100*time.Millisecond))
}

// TestAlertsFireAndClear: a real Prometheus scrapes real candidates, and has the rules as they
// are shipped, durations and all. In za the leader of lock op is killed, and zb, where the other
// candidate is, is cut off. So nobody leads until another candidate starts. Meanwhile the only
// candidate of lock lone is dead, and that of lock deaf works on in zb when its term is over, for want
// of an answer. No other alert fires. Then a zone is evacuated, and each query of the dashboard has
// something to show.
func TestAlertsFireAndClear(t *testing.T) {
	began := time.Now()
	o := newObserved(t, 14*time.Minute)
	ill := filepath.Join(t.TempDir(), "ill")
	must(t, os.WriteFile(ill, nil, 0o600))
	killed := o.leads(t, "za", "op", "op-a")
	o.enter(t, "zb", "op", "op-b", "--unhealthy-file", ill)
	lone := o.leads(t, "zc", "lone", "lone-a")
	deaf := o.leads(t, "zb", "deaf", "deaf-a", "--register", "deaf", "--register-deaf", "5", "--stop-delay", "10s")
	o.leads(t, "zc", "moved", "moved-a", "--mode", "dual", "--legacy-kind", "configmap")
	o.until(t, o.ctx, "all are scraped", func() bool {
		return len(o.query(t, o.ctx, `election_leader == 1`, time.Time{})) == 4 && len(o.query(t, o.ctx, `election_leader`, time.Time{})) == 5
	})
	if all := o.alerts(t, o.ctx, "firing"); len(all) != 0 {
		t.Errorf("all is well, and there are alerts: %v", all)
	}

	fault := time.Now()
	must(t, killed.Kill())
	must(t, lone.Kill())
	must(t, o.Network.PartitionFromAll("zb"))
	o.awaits(t, "ZonelectNoLeader op", true, fault)
	o.awaits(t, "ZonelectWorkOverran deaf", true, fault)
	o.awaits(t, "ZonelectTermsUnanswered", true, fault)
	helped := time.Now()
	o.leads(t, "zc", "op", "op-c")
	t.Logf("op-c leads after %v", time.Since(helped).Round(100*time.Millisecond))
	o.awaits(t, "ZonelectNoLeader op", false, helped)
	o.awaits(t, "ZonelectNoLeader deaf", true, fault)

	helped = time.Now()
	must(t, o.Network.Heal())
	_, err := deaf.Await(o.ctx, "leading", helped)
	must(t, err)
	o.awaits(t, "ZonelectNoLeader deaf", false, helped)

	o.awaits(t, "ZonelectNobodyCampaigns lone", true, fault)
	helped = time.Now()
	o.leads(t, "za", "lone", "lone-b")
	o.awaits(t, "ZonelectNobodyCampaigns lone", false, helped)
	want := []string{"ZonelectNoLeader deaf", "ZonelectNoLeader op", "ZonelectNobodyCampaigns lone", "ZonelectTermsUnanswered", "ZonelectWorkOverran deaf"}
	if got := slices.Sorted(maps.Keys(o.seen)); !slices.Equal(got, want) {
		t.Errorf("%q fired, want %q", got, want)
	}

	o.evacuates(t, "za")
	o.showsEverything(t, began)
}

// evacuates takes leadership out of a zone in which lock lone is led. The alert that nobody has
// restored the zone fires after days, so the test waits only until it is pending.
func (o *observed) evacuates(t *testing.T, zone string) {
	t.Helper()
	successor := o.enter(t, "zb", "lone", "lone-c")
	_, err := successor.Await(o.ctx, "following", time.Time{})
	must(t, err)
	path, err := testbed.BuildProgram(o.ctx, "./cmd/kubectl-zonelect")
	must(t, err)
	p := plugin{path, o.Cluster.Kubeconfig("zc"), nil}
	o.until(t, o.ctx, "lone-b knows lone-c", func() bool {
		return len(o.query(t, o.ctx, `election_candidates{pod="lone-b", election_candidate_zone="zb"} == 1`, time.Time{})) == 1
	})
	p.run(t, o.ctx, exitOK, "evacuate "+zone)
	began := time.Now()
	o.until(t, o.ctx, "the evacuation is told", func() bool {
		_, pending := o.alerts(t, o.ctx, "pending")["ZonelectEvacuationForgotten"]
		return pending
	})
	t.Logf("ZonelectEvacuationForgotten is pending after %v", time.Since(began).Round(100*time.Millisecond))
}

// panel is what the test looks at in config/monitoring/grafana/zonelect.json.
type panel struct {
	Title   string `json:"title"`
	Targets []struct {
		Expr    string `json:"expr"`
		Instant bool   `json:"instant"`
	} `json:"targets"`
}

// variables has what Grafana puts into a query.
var variables = strings.NewReplacer("$__rate_interval", "1m", "$__range", "15m", "$namespace", ".*", "$lock", ".*")

// showsEverything checks that each query of the dashboard, asked as Grafana does, has had a value
// above zero.
func (o *observed) showsEverything(t *testing.T, since time.Time) {
	t.Helper()
	raw, err := os.ReadFile("../../../config/monitoring/grafana/zonelect.json")
	must(t, err)
	var dashboard struct {
		Panels []panel `json:"panels"`
	}
	must(t, json.Unmarshal(raw, &dashboard))
	if len(dashboard.Panels) < 10 {
		t.Fatalf("the dashboard has only %d panels", len(dashboard.Panels))
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			from := since
			if target.Instant {
				from = time.Time{}
			}
			expr, most := variables.Replace(target.Expr), math.Inf(-1)
			got := o.query(t, o.ctx, expr, from)
			for _, s := range got {
				most = max(most, s.most())
			}
			t.Logf("%s: %d series, up to %v", p.Title, len(got), most)
			if most <= 0 {
				t.Errorf("%s: nothing is shown by %s: %v", p.Title, expr, got)
			}
		}
	}
}
