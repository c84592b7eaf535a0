// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zonelect/zonelect/internal/doctest"
)

const nowhere = `{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: k, cluster: {server: "http://127.0.0.1:1"}}],
users: [{name: u}], contexts: [{name: c, context: {cluster: k, user: u, namespace: default}}]}`

func TestTheReadmesProgramSaysWhatIsWrongAndEndsInGoodOrderOnCtrlC(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "program")
	if out, err := exec.Command("go", "build", "-o", binary, write("main.go", doctest.ReadmesProgram(t, readme))).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program := exec.Command(binary)
	program.Env = append(os.Environ(), "POD_NAME=", "POD_NAMESPACE=", "KUBERNETES_SERVICE_HOST=", "KUBECONFIG="+write("config", nowhere))
	stderr, err := program.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	said, told := "", false
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		said += lines.Text() + "\n"
		if !told && strings.Contains(lines.Text(), "connection refused") {
			told = true
			if err := program.Process.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
		}
	}
	if err := program.Wait(); err != nil || !told {
		t.Errorf("it ended with %v, and said:\n%s", err, said)
	}
}

// TestOnlyWhatIsServedIsProbed: operator.Run serves no probes.
func TestOnlyWhatIsServedIsProbed(t *testing.T) {
	for file, want := range map[string]bool{"operator/deployment.yaml": false, "probes/kustomization.yaml": true} {
		raw, err := os.ReadFile(filepath.Join("..", "config", file))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(raw), "livenessProbe"); got != want {
			t.Errorf("config/%s has a liveness probe: %v, want %v", file, got, want)
		}
	}
}
