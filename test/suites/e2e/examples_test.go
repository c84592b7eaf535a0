// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !long

package e2e_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/manifests"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// awaitLine waits until a program prints a line that begins like this.
func awaitLine(t *testing.T, ctx context.Context, p *testbed.Process, begins string) testbed.Line {
	t.Helper()
	for line := range p.Lines(ctx) {
		if strings.HasPrefix(line.Text, begins) {
			return line
		}
	}
	logged, _ := os.ReadFile(p.Log())
	t.Fatalf("%q was never printed: %v\n%s", begins, context.Cause(ctx), logged)
	return testbed.Line{}
}

func TestTheExamplesLeadAndHandOver(t *testing.T) {
	b := trial.Bed(t, plain)
	ctx := patience(t, 5*time.Minute)
	for _, example := range []string{"minimal", "controller-runtime"} {
		path, err := testbed.BuildProgram(ctx, "./examples/"+example)
		must(t, err)
		start := func(name string) *testbed.Process {
			spec := testbed.ProcessSpec{Name: example + "-" + name, Path: path, Env: []string{"KUBECONFIG=" + b.Cluster.Kubeconfig("za")}}
			if example == "controller-runtime" {
				spec.Args = []string{"-webhook-port", freePort(t)}
			}
			p, err := b.StartProcess("za", spec)
			must(t, err)
			return p
		}
		first := start("first")
		awaitLine(t, ctx, first, "leading")
		second := start("second")
		must(t, first.Terminate())
		must(t, first.Wait(ctx))
		stopped, led := awaitLine(t, ctx, first, "stopped"), awaitLine(t, ctx, second, "leading")
		gap := led.Time.Sub(stopped.Time)
		if example == "controller-runtime" {
			awaitLog(t, ctx, second, "Starting workers") // a manager that is told to end before that may end with an error
		}
		t.Logf("%s: handed over in %v", example, gap)
		if gap < 0 || gap > lease/2 {
			t.Errorf("%s: from work stopped to work started it took %v, want less than the lease by far", example, gap)
		}
		must(t, second.Terminate())
		must(t, second.Wait(ctx))
	}
}

// TestATermAndAFollowersLifeEndWell: whoever copies an example gets a program that logs no error and ends
// with 0 when it is told to end, as in each rolling update, whether it follows or leads.
func TestATermAndAFollowersLifeEndWell(t *testing.T) {
	b := trial.Bed(t, plain)
	ctx := patience(t, 10*time.Minute)
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer collector.Close()
	args := map[string]func() []string{
		"controller-runtime": func() []string { return []string{"-webhook-port", freePort(t)} },
		"kubebuilder/after": func() []string {
			return []string{"-leader-elect", "-health-probe-bind-address", "127.0.0.1:" + freePort(t)}
		},
		"../cmd/zonelect-sidecar -- a command": func() []string {
			return []string{"--leader-elect-resource-name=command", "--", "sleep", "1000"}
		},
		"../cmd/zonelect-sidecar": func() []string {
			return []string{"--leader-elect-resource-name=poll", "--address", "127.0.0.1:" + freePort(t)}
		},
	}
	programs := slices.DeleteFunc(slices.Collect(maps.Keys(args)), func(name string) bool { return !strings.HasPrefix(name, "..") })
	for _, pattern := range []string{"*/main.go", "*/after/main.go"} {
		found, err := filepath.Glob("../../../examples/" + pattern)
		must(t, err)
		for _, file := range found {
			if name := strings.TrimPrefix(filepath.Dir(file), "../../../examples/"); name != "leader-service" { // which runs only in a cluster
				programs = append(programs, name)
			}
		}
	}
	if len(programs) < 8 {
		t.Fatalf("there are %d examples: %q", len(programs), programs)
	}
	for _, name := range programs {
		t.Run(name, func(t *testing.T) {
			path, err := testbed.BuildProgram(ctx, "./"+filepath.Join("examples", strings.Fields(name)[0]))
			must(t, err)
			// start starts one, and waits until it says that.
			start := func(which, says string) *testbed.Process {
				spec := testbed.ProcessSpec{Name: strings.NewReplacer("/", "-", " ", "-", ".", "").Replace(name) + which, Path: path, Env: []string{
					"KUBECONFIG=" + b.Cluster.Kubeconfig("za"), "OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL, "WATCH_NAMESPACE=default",
				}}
				if args[name] != nil {
					spec.Args = args[name]()
				}
				p, err := b.StartProcess("za", spec)
				must(t, err)
				for {
					switch logged, _ := os.ReadFile(p.Log()); {
					case strings.Contains(string(logged), says):
						return p
					case ctx.Err() != nil:
						t.Fatalf("the %s never says %q:\n%s", which, says, logged)
					}
					time.Sleep(10 * time.Millisecond)
				}
			}
			leader := start("leader", "leading")
			follower := start("follower", "following")
			for _, p := range []*testbed.Process{follower, leader} {
				must(t, p.Terminate())
				ended := p.Wait(ctx)
				logged, _ := os.ReadFile(p.Log())
				if ended != nil || isError.Match(ofControllerRuntime.ReplaceAll(logged, nil)) {
					t.Errorf("%s ended with: %v\n%s", p.Log(), ended, logged)
				}
			}
		})
	}
}

// isError matches a line of slog, zap or klog that is an error.
var isError = regexp.MustCompile(`(?m)\bERROR\b|^E\d{4} `)

// ofControllerRuntime are errors that a manager logs at each end in good order, with any election.
var ofControllerRuntime = regexp.MustCompile(`(?m)^.*ERROR.*(error received after stop sequence was engaged.*(leader election lost|caches? to sync|timed out waiting)|failed to get informer from cache).*$`)

// TestTheSidecarsDeploymentsAreAdmitted: what the API server does not know would be refused.
func TestTheSidecarsDeploymentsAreAdmitted(t *testing.T) {
	b := trial.Bed(t, plain)
	k := newKubectl(t, b.Cluster.RESTConfig("za"))
	for _, example := range []string{"command", "poll"} {
		all := manifests.Kustomize(t, "../../../examples/sidecar/"+example)
		for _, o := range all {
			k.apply(t, o)
			if kind := o.GetKind(); (kind == "Role" || kind == "RoleBinding") && o.GetName() == "zonelect-proof" && example == "poll" {
				t.Errorf("%s grants %s %s, which nothing uses", example, kind, o.GetName())
			}
		}
	}
}
