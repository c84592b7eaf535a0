// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// The plugin's exit codes.
const (
	exitOK      = 0
	exitError   = 1
	exitUsage   = 2
	exitRefused = 3
)

// plugin is kubectl-zonelect as kubectl runs it: without a terminal.
type plugin struct {
	path, kubeconfig string
	more             []string // arguments for all commands
}

func (p plugin) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, p.path, slices.Concat([]string{"--kubeconfig", p.kubeconfig}, p.more, args)...)
}

// run runs a command, which must exit with that code and print all of the
// words. It returns the standard output.
func (p plugin) run(t *testing.T, ctx context.Context, code int, line string, words ...string) string {
	t.Helper()
	began := time.Now()
	cmd := p.command(ctx, strings.Fields(line)...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	t.Logf("$ kubectl zonelect %s (%v, exit code %d)\n%s%s", line, time.Since(began).Round(10*time.Millisecond), cmd.ProcessState.ExitCode(), out.String(), errOut.String())
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("kubectl zonelect %s: exit code %d, want %d", line, got, code)
	}
	for _, word := range words {
		if !strings.Contains(out.String()+errOut.String(), word) {
			t.Errorf("kubectl zonelect %s does not say %q", line, word)
		}
	}
	return out.String()
}

// follow runs a command until the test ends. The returned function returns the
// output so far.
func (p plugin) follow(t *testing.T, args ...string) func() string {
	t.Helper()
	var out lockedBuffer
	cmd := p.command(t.Context(), args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // it ends with the context
	return out.String
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// The kubectl plugin takes a migration all the way there and back.
func TestAMigrationIsRunFromTheCommandLine(t *testing.T) {
	b := trial.Bed(t, testbed.Config{Zones: threeZones, Network: testbed.Links})
	client, err := kubernetes.NewForConfig(b.Cluster.RESTConfig("za"))
	must(t, err)
	m := &migration{past: &past{b, patience(t, 4*time.Minute), client}, lock: "op", variant: "original", ended: map[*trial.Seat]time.Time{}}
	path, err := testbed.BuildProgram(m.ctx, "./cmd/kubectl-zonelect")
	must(t, err)
	grant(t, m.ctx, client, "status", "migrator")
	grant(t, m.ctx, client, "migrate", "migrator")
	p := plugin{path, m.Cluster.Kubeconfig("zc"), []string{"--as", "migrator"}}
	stranger := plugin{path, p.kubeconfig, []string{"--as", "stranger"}}
	stranger.run(t, m.ctx, exitError, "status op", `needs verb "get" on leases`, "ClusterRole zonelect-status grants that: kubectl apply -k ")
	stranger.run(t, m.ctx, exitError, "migrate plan op", "ClusterRole zonelect-migrate grants that: kubectl apply -k ")
	run := func(code int, line string, words ...string) string {
		t.Helper()
		return p.run(t, m.ctx, code, line, words...)
	}

	run(exitError, "status op", "there is no lock op")
	run(exitError, "status -n nowhere", "namespace nowhere does not exist")
	run(exitUsage, "status -o nonsense", "use one of")
	old := m.start(t, trial.Legacy, "za", "old")
	m.await(t, old, "leading")
	run(exitOK, "status op", "absent", "legacy", "pod/op-old")
	run(exitRefused, "migrate advance op --yes", "order", "roll out")

	watched := p.follow(t, "status", "-w")
	first := m.start(t, trial.Zonelect, "zb", "new-0")
	second := m.start(t, trial.Zonelect, "zc", "new-1")
	m.await(t, second, "following")
	run(exitRefused, "migrate advance op --yes -l app=op", "armed", "legacy-pods", "FAILED")
	run(exitOK, "status -A -o wide", "waiting", "dual", "zb:1,zc:1", "pod/op-old", "legacy pods that may still lead: op-old")
	gone := m.end(t, old)
	leader := m.awaitLeader(t, gone, "the last legacy pod's end", first, second)

	var status struct {
		Status struct {
			State  string
			Phase  string
			Leader struct {
				Identity, Zone string
				Token          uint64
			}
			Candidates []struct{ Zone string }
			Legacy     struct {
				Kind  string
				Armed bool
			}
		}
	}
	must(t, json.Unmarshal([]byte(run(exitOK, "status op -o json")), &status))
	s := status.Status
	if s.State != "held" || s.Phase != "dual" || s.Leader.Identity != leader.Identity || s.Leader.Zone != leader.Zone || s.Leader.Token == 0 ||
		len(s.Candidates) != 2 || s.Legacy.Kind != "shield" || !s.Legacy.Armed {
		t.Errorf("the status is %+v", s)
	}

	run(exitOK, "migrate plan op -l app=op", "advance, to phase sealed", "no legacy pod is presumed gone")
	run(exitOK, "migrate advance op -l app=op --dry-run", "could go from phase dual to sealed")
	run(exitRefused, "migrate advance op -l app=op", "use --yes")
	run(exitOK, "migrate advance op -l app=op --to sealed --yes", "went from phase dual to sealed", "have followed")
	m.awaitConfigMap(t, "sealed", func(cm *corev1.ConfigMap) bool { return cm != nil && len(cm.OwnerReferences) == 0 })
	run(exitOK, "status op --no-headers", "sealed")
	run(exitRefused, "migrate clean op -l app=op --yes", "no-way-back")
	run(exitOK, "migrate rollback op -l app=op --yes", "went from phase sealed to dual", "have followed")
	run(exitRefused, "migrate rollback op -l app=op --yes", "without a legacy pod nobody leads")
	again := m.start(t, trial.Legacy, "za", "again")
	back := time.Now()
	run(exitOK, "migrate rollback op -l app=op --to legacy --yes", "went from phase dual to legacy", "have followed")
	m.awaitLeader(t, back, "the step back to legacy", again)
	run(exitOK, "status op", "released", "legacy", "pod/op-again")

	run(exitOK, "migrate advance op -l app=op --to dual --yes --wait=false", "went from phase legacy to dual")
	m.insist(t, "wait until a candidate holds the Lease", func(ctx context.Context, c *kubernetes.Clientset) error {
		lease, err := c.CoordinationV1().Leases("default").Get(ctx, m.lock, metav1.GetOptions{})
		if err == nil && holder(lease) != first.Identity && holder(lease) != second.Identity {
			err = fmt.Errorf("%q holds it", holder(lease))
		}
		return err
	})
	gone = m.end(t, again)
	m.awaitLeader(t, gone, "the last legacy pod's end", first, second)

	run(exitOK, "history op", "absent", "released", leader.Identity)
	for _, word := range []string{"dual", "sealed", "legacy", "released", "waiting", "held"} {
		if !strings.Contains(watched(), " "+word+" ") {
			t.Errorf("status -w has not said %s", word)
		}
	}
	t.Logf("$ kubectl zonelect status -w\n%s", watched())
	m.checkOverlaps(t)
}
