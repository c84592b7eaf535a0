// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/kubernetes"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/zonelect/zonelect/test/kit/manifests"
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
	got := cmd.ProcessState.ExitCode()
	t.Logf("$ kubectl zonelect %s (%v, exit code %d)\n%s%s", line, time.Since(began).Round(10*time.Millisecond), got, &out, &errOut)
	if got != code {
		t.Fatalf("kubectl zonelect %s: exit code %d, want %d", line, got, code)
	}
	for _, word := range words {
		if !strings.Contains(out.String()+errOut.String(), word) {
			t.Errorf("kubectl zonelect %s does not say %q", line, word)
		}
	}
	return out.String()
}

// grant gives a user the rights that config/people says people need.
func grant(t *testing.T, client kubernetes.Interface, name, to string) {
	t.Helper()
	all := manifests.Kustomize(t, "../../../config/people/"+name)
	for _, role := range manifests.Pick[rbacv1.ClusterRole](t, all, "ClusterRole") {
		allow(t, client, "", role.Name+"-"+to, user(to), role.Rules...)
	}
}

// plugin is that of somebody who has these rights of config/people, and no others. It asks the API server of zone zc.
func (g *ground) plugin(t *testing.T, name string, roles ...string) plugin {
	t.Helper()
	for _, role := range roles {
		grant(t, g.client, role, g.named(name))
	}
	return plugin{built["./cmd/kubectl-zonelect"], g.kubeconfig(t, "zc", func(c *clientcmdapi.Config) {
		for _, cluster := range c.Clusters {
			cluster.Server = g.Cluster.RESTConfig("zc").Host
		}
	}), []string{"--as", g.named(name), "--namespace", g.namespace}}
}

// person returns the function that runs somebody's plugin.
func (g *ground) person(t *testing.T, name string, roles ...string) func(code int, line string, words ...string) string {
	p := g.plugin(t, name, roles...)
	return func(code int, line string, words ...string) string {
		t.Helper()
		return p.run(t, patience(t, 2*soon), code, line, words...)
	}
}

// Who has the rights of config/people looks at three locks, hands one over, evacuates a zone and finds out
// what is wrong.
func TestPeopleLookAtLocksAndMoveThem(t *testing.T) {
	g := newGround(t, harmless, "people")
	doctor, onCall, watcher := g.person(t, "doctor", "doctor"), g.person(t, "on-call", "shift"), g.person(t, "watcher", "status")
	const locks = 3
	read := func() (all []*coordinationv1.Lease) {
		for i := range locks {
			all = append(all, leaseOf(t, g.client, g.namespace, fmt.Sprint("op-", i)))
		}
		return all
	}
	ledIn := func(zone string) (n int) {
		for _, l := range read() {
			if holder(l) != "" && l.Annotations["zonelect.dev/zone"] == zone {
				n++
			}
		}
		return n
	}
	var seats []*trial.Seat
	enter := func(zone string) {
		seats = append(seats, g.inPod(t, zone, "op", zone, append([]string{"--locks", fmt.Sprint(locks)}, quickly...)...))
		until(t, fmt.Sprintf("%d candidates have announced themselves", locks*len(seats)), func() bool {
			return len(presencesOf(t, g.client, g.namespace, "")) == locks*len(seats)
		})
	}

	doctor(exitError, "doctor op-0 --service-account default", "there is no Lease", "service account default may not get")
	enter("za")
	until(t, "za leads all", func() bool { return ledIn("za") == locks })
	doctor(exitError, "doctor op-0", "problem", "rights", "service account default", "only one candidate")
	all := []string{"*"}
	allow(t, g.client, g.namespace, "candidates", serviceAccount(g.namespace, "default"), rule("*", all, all))
	enter("zb")
	enter("zc")
	time.Sleep(3 * quick.RenewInterval) // the candidates hear of each other
	doctor(exitOK, "doctor op-0", "ok", "has led for", "service account default may do all")
	watcher(exitOK, "status", "op-0", "op-1", "op-2", "held", "za")
	watcher(exitError, "handover op-0 --to-zone zb", "ClusterRole zonelect-shift grants that")

	onCall(exitRefused, "handover op-0 --to-zone zx", "no other candidate is known in zone zx")
	onCall(exitRefused, "handover op-0 --to nobody", "no candidate nobody is known")
	onCall(exitOK, "handover op-0 --to-zone zb", "(zb)")
	watcher(exitOK, "status op-0", "zb")

	began := time.Now()
	onCall(exitOK, "evacuate za", "op-0", "marked", "op-1", "op-2", "moved")
	for _, e := range seats[0].Events() {
		if e.Event == "leading" && e.Time.After(began) {
			t.Errorf("%s was led from the zone that is evacuated", e.Lock)
		}
	}
	if n := ledIn("za"); n > 0 {
		t.Errorf("%d locks are led from the zone that was evacuated", n)
	}
	for _, l := range read() {
		if evacuated := l.Annotations["zonelect.dev/evacuated-zones"]; !strings.Contains(evacuated, "za") {
			t.Errorf("%s says of evacuations: %q", l.Name, evacuated)
		}
	}
	onCall(exitOK, "restore za", "op-0", "op-1", "op-2", "restored")
	onCall(exitOK, "handover op-0 --to-zone za", "(za)")

	for _, s := range seats {
		g.kill(t, s)
	}
	time.Sleep(quick.LeaseDuration)
	doctor(exitError, "doctor op-0", "problem", "does not renew it")
}
