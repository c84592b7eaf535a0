// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

const (
	clientGosImport = `"k8s.io/client-go/tools/leaderelection"`
	dropInsImport   = `"github.com/zonelect/zonelect/operator/leaderelection"`
)

// buildWritten builds a program of test/programs/written, as it stands or with the drop-in's import.
func buildWritten(t *testing.T, name string, moved bool) (path string) {
	t.Helper()
	root, err := testbed.Root()
	must(t, err)
	dir := t.TempDir()
	path = filepath.Join(dir, name)
	args := []string{"build", "-o", path}
	if moved {
		file := filepath.Join(root, "test", "programs", "written", name, "main.go")
		source, err := os.ReadFile(file)
		must(t, err)
		if n := strings.Count(string(source), clientGosImport); n != 1 {
			t.Fatalf("%s imports client-go's elector %d times", file, n)
		}
		copied, overlay := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json")
		must(t, os.WriteFile(copied, []byte(strings.Replace(string(source), clientGosImport, dropInsImport, 1)), 0o600))
		text, err := json.Marshal(map[string]any{"Replace": map[string]string{file: copied}})
		must(t, err)
		must(t, os.WriteFile(overlay, text, 0o600))
		args = append(args, "-overlay", overlay)
	}
	build := exec.CommandContext(t.Context(), "go", append(args, "./test/programs/written/"+name)...)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building %s, moved: %v: %v\n%s", name, moved, err, out)
	}
	return path
}

// written are the replicas of a program, of which one leads.
type written struct {
	bed      *testbed.Testbed
	lock     string
	programs []string // files, which the replicas have in turn
	seats    []*testbed.Process
	started  int

	told, killed []time.Duration // from the end of the work, or a kill, to the work of the next
}

// start starts a replica.
func (w *written) start() error {
	w.started++
	id := fmt.Sprintf("%s-%d", w.lock, w.started)
	kubeconfig := w.bed.Cluster.Kubeconfig("za")
	spec := testbed.ProcessSpec{Name: id, Path: w.programs[w.started%len(w.programs)], Args: []string{"--lease-lock-name=" + w.lock, "--id=" + id}}
	if strings.HasPrefix(w.lock, "healthz") {
		spec.Env = []string{"KUBECONFIG=" + kubeconfig}
	} else {
		spec.Args = append(spec.Args, "--kubeconfig="+kubeconfig)
	}
	p, err := w.bed.StartProcess("za", spec)
	w.seats = append(w.seats, p)
	return err
}

// said returns when a replica printed that, after a time.
func said(p *testbed.Process, text string, since time.Time) (at time.Time, ok bool) {
	for _, line := range p.Output() {
		stamp, is := strings.CutPrefix(line.Text, text+" ")
		if at, err := time.Parse(time.RFC3339Nano, stamp); is && err == nil && at.After(since) {
			return at, true
		}
	}
	return time.Time{}, false
}

// leads waits until a replica works that did not at that time.
func (w *written) leads(ctx context.Context, since time.Time) (time.Time, *testbed.Process, error) {
	for {
		for _, p := range w.seats {
			if at, ok := said(p, "working", since); ok {
				return at, p, nil
			}
			select {
			case <-p.Done():
				if since.IsZero() {
					logged, _ := os.ReadFile(p.Log()) // for people
					return time.Time{}, nil, fmt.Errorf("a program of %s ended:\n%s", w.lock, logged)
				}
			default:
			}
		}
		if err := sleep.For(ctx, 5*time.Millisecond); err != nil {
			return time.Time{}, nil, fmt.Errorf("nobody leads by %s: %w", w.lock, err)
		}
	}
}

// replace ends the leader, and starts another replica when the next leads. It returns how long that took
// from the end of the leader's work on, or from a kill.
func (w *written) replace(ctx context.Context, leader *testbed.Process, end func(*testbed.Process) error) (time.Duration, *testbed.Process, error) {
	if err := sleep.For(ctx, 5*time.Second); err != nil { // until the other follows
		return 0, nil, err
	}
	from := time.Now()
	if err := end(leader); err != nil {
		return 0, nil, err
	}
	began, next, err := w.leads(ctx, from)
	if err != nil {
		return 0, nil, err
	}
	_ = leader.Wait(ctx) // as it was told to
	if idle, ok := said(leader, "idle", from); ok {
		from = idle
	}
	i := slices.Index(w.seats, leader)
	w.seats = slices.Delete(w.seats, i, i+1)
	return began.Sub(from), next, w.start()
}

// rounds ends the leader by turns in each way.
func (w *written) rounds(ctx context.Context, n int) error {
	for range 2 {
		if err := w.start(); err != nil {
			return err
		}
	}
	_, leader, err := w.leads(ctx, time.Time{})
	for range n {
		for _, by := range []struct {
			end  func(*testbed.Process) error
			took *[]time.Duration
		}{{(*testbed.Process).Terminate, &w.told}, {(*testbed.Process).Kill, &w.killed}} {
			if err != nil {
				return err
			}
			var took time.Duration
			took, leader, err = w.replace(ctx, leader, by.end)
			*by.took = append(*by.took, took)
		}
	}
	return err
}

// isHealthy asks a replica of healthz whether it is alive.
func isHealthy(ctx context.Context, p *testbed.Process) error {
	for _, line := range p.Output() {
		address, ok := strings.CutPrefix(line.Text, "healthz ")
		if !ok {
			continue
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/healthz/leaderElection", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	}
	return errors.New("it does not say where it answers probes")
}

// TestAProgramMovesByOneImport: three programs as client-go's documentation shows them compile with the
// import of the drop-in, hand over when they are told to end, and are followed when they are killed,
// beside themselves with client-go. Replicas of both elect one leader.
func TestAProgramMovesByOneImport(t *testing.T) {
	b := trial.Bed(t, plain)
	ctx := patience(t, 10*time.Minute)
	names := []string{"plain", "healthz", "workers"}
	const rounds = 4
	rows := map[string]*written{}
	for _, name := range names {
		before, after := buildWritten(t, name, false), buildWritten(t, name, true)
		for kind, programs := range map[string][]string{"client-go": {before}, "moved": {after}, "both": {before, after}} {
			lock := name + "-" + kind
			rows[lock] = &written{bed: b, lock: lock, programs: programs}
		}
	}
	errs := make(chan error, len(rows))
	var all sync.WaitGroup
	for _, w := range rows {
		all.Go(func() { errs <- w.rounds(ctx, rounds) })
	}
	all.Wait()
	for range rows {
		must(t, <-errs)
	}
	for _, p := range rows["healthz-moved"].seats {
		if err := isHealthy(ctx, p); err != nil {
			t.Error(err)
		}
	}
	for lock, w := range rows {
		allowed := 100 * time.Millisecond // client-go releases the lock before the work has said that it is idle
		if strings.HasSuffix(lock, "-moved") {
			allowed = 0
		}
		if least := slices.Min(w.told); least < -allowed {
			t.Errorf("%s: two worked for %v", lock, -least)
		}
	}
	sum := map[string][2]time.Duration{} // few rounds of one program may all be lucky ones
	for _, name := range names {
		before, after := rows[name+"-client-go"], rows[name+"-moved"]
		for what, took := range map[string][2][]time.Duration{"SIGTERM": {before.told, after.told}, "SIGKILL": {before.killed, after.killed}} {
			old, now := percentileOf(took[0], 0.5), percentileOf(took[1], 0.5)
			t.Logf("%s, %s: the next works after %v with client-go, %v with the drop-in (medians of %d)", name, what, old.Round(time.Millisecond), now.Round(time.Millisecond), rounds)
			sum[what] = [2]time.Duration{sum[what][0] + old, sum[what][1] + now}
		}
	}
	if of := sum["SIGTERM"]; of[1] > of[0]/2 {
		t.Errorf("SIGTERM: %v in all with the drop-in, want half of client-go's %v at most", of[1], of[0])
	}
	if of := sum["SIGKILL"]; of[1] > of[0] {
		t.Errorf("SIGKILL: %v in all with the drop-in, %v with client-go", of[1], of[0])
	}
}
