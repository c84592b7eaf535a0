// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

// written is a program that imports client-go's elector.
const written = "./test/programs/written/healthz"

// buildMoved builds it with the drop-in's import.
func buildMoved(t *testing.T) (path string) {
	t.Helper()
	root, err := testbed.Root()
	must(t, err)
	file := filepath.Join(root, written, "main.go")
	source, err := os.ReadFile(file)
	must(t, err)
	moved := strings.Replace(string(source), `"k8s.io/client-go/tools/leaderelection"`,
		`"github.com/zonelect/zonelect/operator/leaderelection"`, 1)
	if moved == string(source) {
		t.Fatalf("%s does not import client-go's elector", file)
	}
	dir := t.TempDir()
	copied, overlay := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json")
	must(t, os.WriteFile(copied, []byte(moved), 0o600))
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{file: copied}})
	must(t, err)
	must(t, os.WriteFile(overlay, text, 0o600))
	path = filepath.Join(dir, "moved")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "-overlay", overlay, written)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", written, err, out)
	}
	return path
}

// said returns when a replica printed that, after a time.
func said(p *testbed.Process, text string, since time.Time) (at time.Time, ok bool) {
	for _, line := range p.Output() {
		stamp, is := strings.CutPrefix(line, text+" ")
		if at, err := time.Parse(time.RFC3339Nano, stamp); is && err == nil && at.After(since) {
			return at, true
		}
	}
	return time.Time{}, false
}

// isHealthy asks a replica of healthz whether it is alive.
func isHealthy(p *testbed.Process) error {
	for _, line := range p.Output() {
		if address, ok := strings.CutPrefix(line, "healthz "); ok {
			resp, err := http.Get("http://" + address + "/healthz/leaderElection")
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return errors.New(resp.Status)
			}
			return nil
		}
	}
	return errors.New("it does not say where it answers probes")
}

// TestAProgramMovesByOneImport: a program that uses client-go's elector compiles with the import of the drop-in. Beside
// a replica with client-go, one is elected, hands over when it is told to end, and is followed when it is killed.
func TestAProgramMovesByOneImport(t *testing.T) {
	g := ownGround(t, plain)
	before, err := testbed.BuildProgram(t.Context(), written)
	must(t, err)
	after := buildMoved(t)
	moved := map[*testbed.Process]bool{}
	var seats []*testbed.Process
	enter := func(path string) {
		id := fmt.Sprint("replica-", len(moved))
		p := g.start(t, "za", path, id, "--lease-lock-name=lock", "--id="+id)
		moved[p], seats = path == after, append(seats, p)
	}
	enter(before)
	enter(after)
	var since time.Time
	for round := range 8 {
		var leader *testbed.Process
		var began time.Time
		until(t, "one works", func() bool {
			for _, p := range seats {
				if at, ok := said(p, "working", since); ok {
					leader, began = p, at
				}
			}
			return leader != nil
		})
		t.Logf("round %d: %v, moved: %v", round, began.Format("05.000"), moved[leader])
		time.Sleep(5 * time.Second) // until the other follows
		since = time.Now()
		if round%4 < 2 {
			must(t, leader.Terminate())
		} else {
			must(t, leader.Kill())
		}
		_ = leader.Wait(patience(t, soon)) // as it was told to
		seats = slices.DeleteFunc(seats, func(p *testbed.Process) bool { return p == leader })
		idle, stopped := said(leader, "idle", since)
		for _, p := range seats {
			if err := isHealthy(p); moved[p] && err != nil {
				t.Error(err)
			}
			// client-go releases the lock before the work has said that it is idle.
			if at, worked := said(p, "working", began); stopped && moved[leader] && worked && at.Before(idle) {
				t.Errorf("two worked for %v", idle.Sub(at))
			}
		}
		if moved[leader] {
			enter(after)
		} else {
			enter(before)
		}
	}
}
