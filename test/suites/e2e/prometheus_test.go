// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

// scraping is how often a test's Prometheus scrapes and judges the rules. Users' do it every
// 30 s or so; nothing else differs from them.
const scraping = 5 * time.Second

// prometheus is a running Prometheus with the rules as they are shipped.
type prometheus struct {
	*testbed.Process
	url string

	mu      sync.Mutex
	targets []target
	file    string // from which it reads the targets
}

// target is a process, or several, to scrape.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// findPrometheus skips the test where there is no Prometheus.
func findPrometheus(t *testing.T) (program string) {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("there is no prometheus: apt-get install prometheus")
	}
	return program
}

func startPrometheus(t *testing.T, ctx context.Context, b *testbed.Testbed, program string) *prometheus {
	t.Helper()
	rules, err := filepath.Abs("../../../config/monitoring/prometheus/rules.yaml")
	must(t, err)
	dir := t.TempDir()
	p := &prometheus{file: filepath.Join(dir, "targets.json")}
	config, err := json.Marshal(map[string]any{ // JSON is YAML
		"global":     map[string]any{"scrape_interval": scraping.String(), "evaluation_interval": scraping.String()},
		"rule_files": []string{rules},
		"scrape_configs": []any{map[string]any{
			"job_name":        "op",
			"file_sd_configs": []any{map[string]any{"files": []string{p.file}}},
		}},
	})
	must(t, err)
	file := filepath.Join(dir, "prometheus.yaml")
	must(t, os.WriteFile(file, config, 0o600))
	address := "127.0.0.1:" + freePort(t)
	p.url = "http://" + address
	p.Process, err = b.StartProcess("za", testbed.ProcessSpec{Name: "prometheus", Path: program, Args: []string{
		"--config.file=" + file, "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + address,
	}})
	must(t, err)
	t.Cleanup(func() { // before its directory is removed
		must(t, p.Kill())
		<-p.Done()
	})
	p.until(t, ctx, "Prometheus is ready", func() bool {
		select {
		case <-p.Done():
			log, _ := os.ReadFile(p.Log())
			t.Fatalf("Prometheus has ended: %s", log)
		default:
		}
		_, err := p.get(ctx, "/-/ready", nil)
		return err == nil
	})
	return p
}

// scrape adds a process, which stays a target when it has ended, as a pod that restarts does.
func (p *prometheus) scrape(t *testing.T, address, pod string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.targets = append(p.targets, target{[]string{address}, map[string]string{"pod": pod}})
	text, err := json.Marshal(p.targets)
	must(t, err)
	must(t, os.WriteFile(p.file+".new", text, 0o600))
	must(t, os.Rename(p.file+".new", p.file)) // or it may read a half
}

// get returns what the API answers to a GET.
func (p *prometheus) get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return body, err
}

// series is what a query returns: its value, or its values in a range of time.
type series struct {
	Metric map[string]string `json:"metric"`
	Value  point             `json:"value"`
	Values []point           `json:"values"`
}

// point is a time and a value, which is text.
type point [2]any

// most is the highest value; NaN is none.
func (s series) most() float64 {
	highest := math.Inf(-1)
	for _, p := range append(s.Values, s.Value) {
		text, _ := p[1].(string)
		if v, err := strconv.ParseFloat(text, 64); err == nil && v > highest {
			highest = v
		}
	}
	return highest
}

// query returns what an expression is now or, if from is not zero, what it has been since from. The
// last step of that is now: a sample that has just made an alert pending must not lie behind it.
func (p *prometheus) query(t *testing.T, ctx context.Context, expr string, from time.Time) []series {
	t.Helper()
	path, q := "/api/v1/query", url.Values{"query": {expr}}
	if !from.IsZero() {
		now := time.Now()
		first := now.Add(-(now.Sub(from)/scraping + 1) * scraping)
		path, q["start"], q["end"], q["step"] = "/api/v1/query_range", seconds(first), seconds(now), []string{scraping.String()}
	}
	body, err := p.get(ctx, path, q)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	var answer struct {
		Data struct {
			Result []series `json:"result"`
		} `json:"data"`
	}
	must(t, json.Unmarshal(body, &answer))
	return answer.Data.Result
}

func seconds(at time.Time) []string {
	return []string{strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64)}
}

// alert is one that is pending or fires.
type alert struct {
	State  string            `json:"state"`
	Labels map[string]string `json:"labels"`
}

func (a alert) String() string {
	return strings.TrimSpace(a.Labels["alertname"] + " " + a.Labels["election_lock_name"])
}

// alerts returns those that fire, or are pending, by name and lock.
func (p *prometheus) alerts(t *testing.T, ctx context.Context, state string) map[string]alert {
	t.Helper()
	body, err := p.get(ctx, "/api/v1/alerts", nil)
	must(t, err)
	var answer struct {
		Data struct {
			Alerts []alert `json:"alerts"`
		} `json:"data"`
	}
	must(t, json.Unmarshal(body, &answer))
	all := map[string]alert{}
	for _, a := range answer.Data.Alerts {
		if a.State == state {
			all[a.String()] = a
		}
	}
	return all
}

// until waits until the condition holds.
func (p *prometheus) until(t *testing.T, ctx context.Context, what string, so func() bool) {
	t.Helper()
	for !so() {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("waited in vain until %s", what)
		}
	}
}
