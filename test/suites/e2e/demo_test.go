// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/test/kit/durations"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// theater is a control plane on which somebody with the rights of config/people/demo, and no others,
// runs demo.
type theater struct {
	plugin
	ctx    context.Context
	client kubernetes.Interface
}

func newTheater(t *testing.T) theater {
	t.Helper()
	b := trial.Bed(t, testbed.Config{Zones: []string{"za"}, Network: testbed.Links, WithoutControllers: true})
	client, err := kubernetes.NewForConfig(b.Cluster.RESTConfig("za"))
	must(t, err)
	ctx := patience(t, 4*time.Minute)
	path, err := testbed.BuildProgram(ctx, "./cmd/kubectl-zonelect")
	must(t, err)
	grant(t, ctx, client, "demo", "newcomer")
	return theater{plugin{path, b.Cluster.Kubeconfig("za"), []string{"--as", "newcomer"}}, ctx, client}
}

// left are the Leases that there are.
func (d theater) left(t *testing.T) []string {
	t.Helper()
	list, err := d.client.CoordinationV1().Leases("default").List(d.ctx, metav1.ListOptions{})
	must(t, err)
	var all []string
	for _, l := range list.Items {
		all = append(all, "lease "+l.Name)
	}
	return all
}

// TestADemoKeepsItsPromisesWithTheRightsThatItNames, in less than a minute, and leaves nothing. Whoever
// has no rights is told so. On a busy machine a figure may be two seconds above what the demo allows.
func TestADemoKeepsItsPromisesWithTheRightsThatItNames(t *testing.T) {
	d := newTheater(t)
	stranger := plugin{d.path, d.kubeconfig, []string{"--as", "stranger"}}
	stranger.run(t, d.ctx, exitError, "demo", "ClusterRole zonelect-demo grants that")
	began := time.Now()
	said, err := d.command(d.ctx, "demo", "--output=json").Output() // the exit code is as its figures are
	var report struct {
		Promises []struct {
			Name, Result, Text string
			Milliseconds       *int64
			Allowed            *int64 `json:"allowedMilliseconds"`
		}
	}
	if wrong := json.Unmarshal(said, &report); wrong != nil || len(report.Promises) != 7 {
		t.Fatalf("it ends with %v and prints %s: %v", err, said, wrong)
	}
	for _, p := range report.Promises {
		t.Logf("%s is %s: %s", p.Name, p.Result, p.Text)
		busy := p.Milliseconds != nil && *p.Milliseconds <= *p.Allowed+2000
		if p.Result != "kept" && !busy {
			t.Errorf("%s is %s: %s", p.Name, p.Result, p.Text)
		}
	}
	must(t, durations.Record(t.Name(), "the whole demo", time.Since(began)))
	if left := d.left(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestADemoThatIsInterruptedLeavesNothing, while a leader is cut off.
func TestADemoThatIsInterruptedLeavesNothing(t *testing.T) {
	d := newTheater(t)
	var out lockedBuffer
	cmd := d.command(d.ctx, "demo")
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	d.until(t, cmd, &out, "is cut")
	if there := d.left(t); len(there) < 4 { // the lock, and a Lease of each candidate
		t.Errorf("there are only %v", there)
	}
	must(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait() // it was interrupted
	if !strings.Contains(out.String(), "interrupted: nothing is left in the cluster") {
		t.Errorf("it says %s", out.String())
	}
	if left := d.left(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// until waits until a command has said something.
func (d theater) until(t *testing.T, cmd *exec.Cmd, out *lockedBuffer, what string) {
	t.Helper()
	for !strings.Contains(out.String(), what) {
		if d.ctx.Err() != nil || syscall.Kill(cmd.Process.Pid, 0) != nil {
			t.Fatalf("it does not say %q: %s", what, out.String())
		}
		time.Sleep(10 * time.Millisecond)
	}
}
