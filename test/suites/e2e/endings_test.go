// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

// TestATermAndAFollowersLifeEndWell: whoever copies an example gets a program that logs no error and ends
// with 0 when it is told to end, as in each rolling update, whether it follows or leads.
func TestATermAndAFollowersLifeEndWell(t *testing.T) {
	g := ownGround(t, plain)
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("WATCH_NAMESPACE", g.namespace)
	args := map[string]func() []string{
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
			if name := strings.TrimPrefix(filepath.Dir(file), "../../../examples/"); name != "leader-service" { // only in a cluster
				programs = append(programs, name)
			}
		}
	}
	if len(programs) < 6 {
		t.Fatalf("there are %d examples: %q", len(programs), programs)
	}
	for _, name := range programs {
		t.Run(name, func(t *testing.T) {
			path, err := testbed.BuildProgram(t.Context(), "./"+filepath.Join("examples", strings.Fields(name)[0]))
			must(t, err)
			// start starts one, and waits until it says that.
			start := func(which, says string) *testbed.Process {
				var flags []string
				if args[name] != nil {
					flags = args[name]()
				}
				p := g.start(t, "za", path, strings.NewReplacer("/", "-", " ", "-", ".", "").Replace(name)+which, flags...)
				awaitLog(t, p, says)
				return p
			}
			leader := start("leader", "leading")
			follower := start("follower", "following")
			for _, p := range []*testbed.Process{follower, leader} {
				must(t, p.Terminate())
				ended := p.Wait(patience(t, soon))
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
var ofControllerRuntime = regexp.MustCompile(`(?m)^.*ERROR.*(` +
	`error received after stop sequence was engaged.*(leader election lost|caches? to sync|timed out waiting)|` +
	`failed to get informer from cache).*$`)
