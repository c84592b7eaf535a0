// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zonelect/zonelect/internal/doctest"
)

const nowhere = `{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: k, cluster: {server: "http://127.0.0.1:1"}}],
users: [{name: u}], contexts: [{name: c, context: {cluster: k, user: u, namespace: default}}]}`

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func write(t *testing.T, dir, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// program builds the README's program.
func program(t *testing.T) (binary string) {
	t.Helper()
	dir := t.TempDir()
	binary = filepath.Join(dir, "program")
	if out, err := exec.Command("go", "build", "-o", binary, write(t, dir, "main.go", doctest.ReadmesProgram(t, read(t, "../README.md")))).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

func TestTheReadmesProgramSaysWhatIsWrongAndEndsInGoodOrderOnCtrlC(t *testing.T) {
	program := exec.Command(program(t))
	program.Env = append(os.Environ(), "POD_NAME=", "POD_NAMESPACE=", "KUBERNETES_SERVICE_HOST=", "KUBECONFIG="+write(t, t.TempDir(), "config", nowhere))
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

// TestTheReadmesProgramHasTheFlagsAndTheVariables, which config/ sets.
func TestTheReadmesProgramHasTheFlagsAndTheVariables(t *testing.T) {
	binary, kubeconfig := program(t), write(t, t.TempDir(), "config", nowhere)
	for _, row := range []struct{ flag, variable, want string }{
		{"--leader-elect-lease-duration=soon", "LEADER_ELECT=true", "invalid value \"soon\" for flag -leader-elect-lease-duration"},
		{"--leader-elect", "LEADER_ELECT_LEASE_DURATION=soon", "environment variable LEADER_ELECT_LEASE_DURATION"},
		{"--leader-elect-lease-duration=5s", "LEADER_ELECT_LEASE_DURATION=20s", "LeaseDuration 5s"}, // the flag wins
	} {
		program := exec.Command(binary, row.flag)
		program.Env = append(os.Environ(), row.variable, "KUBECONFIG="+kubeconfig)
		if said, err := program.CombinedOutput(); err == nil || !strings.Contains(string(said), row.want) {
			t.Errorf("%s %s: %v, and it said:\n%s", row.variable, row.flag, err, said)
		}
	}
}

// TestTheReadmesWayToInstallResolves runs the commands that the README has for as long as nothing is
// released, in a module of its own that imports what the README names.
func TestTheReadmesWayToInstallResolves(t *testing.T) {
	readme := read(t, "../README.md")
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, "go.mod", "module example.com/operator\n\ngo 1.25.0\n")
	write(t, dir, "main.go", doctest.ReadmesProgram(t, readme))
	write(t, dir, "more.go", `package main

import (
	_ "github.com/zonelect/zonelect/operator/ctrlruntime"
	_ "github.com/zonelect/zonelect/operator/leaderelection"
	_ "github.com/zonelect/zonelect/operator/prometheus"
)
`)
	steps := regexp.MustCompile(`(?m)^ {4}go work .*$`).FindAllString(string(readme), -1)
	if len(steps) == 0 {
		t.Skip("zonelect is released")
	}
	for _, step := range append(steps, "go list -deps .") {
		args := strings.Fields(strings.ReplaceAll(step, "../zonelect", root))
		command := exec.Command(args[0], args[1:]...)
		command.Dir, command.Env = dir, append(os.Environ(), "GOWORK=", "GOFLAGS=")
		if said, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", step, err, said)
		}
	}
}

// TestTheReadmesFiguresAreInItsReasons: docs/why.md says how each figure of the README's first table was measured.
func TestTheReadmesFiguresAreInItsReasons(t *testing.T) {
	figure := regexp.MustCompile(`\d+(?:\.\d+)? (?:ms|s|%|restarts?|times)\b|\d+ %`)
	_, measured, _ := strings.Cut(string(read(t, "why.md")), "\n## Measured\n")
	table, _, _ := strings.Cut(string(read(t, "../README.md")), "\nMeasured with")
	found := figure.FindAllString(table, -1)
	if len(found) < 8 {
		t.Fatalf("the README's table has the figures %q", found)
	}
	for _, f := range found {
		if !strings.Contains(measured, f) {
			t.Errorf("the README says %q, and docs/why.md does not say how that was measured", f)
		}
	}
}

// TestTheReadmesDiffIsOfTheOneThatCompiles: it has fewer lines than docs/adopt-kubebuilder.md, which a test of the
// examples holds.
func TestTheReadmesDiffIsOfTheOneThatCompiles(t *testing.T) {
	block := regexp.MustCompile("(?s)```diff\n(.*?)```").FindSubmatch(read(t, "../README.md"))
	if block == nil {
		t.Fatal("the README has no diff")
	}
	whole := string(read(t, "adopt-kubebuilder.md"))
	for line := range strings.Lines(string(block[1])) {
		if line != "...\n" && !strings.Contains(whole, "\n"+line) {
			t.Errorf("docs/adopt-kubebuilder.md has no line %q", line)
		}
	}
}

// TestADocumentThatNamesAReleaseSaysThatThereIsNone, until the change log has one.
func TestADocumentThatNamesAReleaseSaysThatThereIsNone(t *testing.T) {
	const said = "Nothing is released yet"
	released := regexp.MustCompile(`(?m)^## \[\d`).Match(read(t, "../CHANGELOG.md"))
	documents, _ := filepath.Glob("*.md") // the pattern is well-formed
	for _, name := range append(documents, "../README.md") {
		text := string(read(t, name))
		names := regexp.MustCompile(`releases/download|zonelect/[\w/-]+@latest|[?]ref=v\d|git checkout v\d`).MatchString(text)
		switch says := strings.Contains(text, said); {
		case released && says:
			t.Errorf("%s still says %q", name, said)
		case !released && names && !says:
			t.Errorf("%s sends people to a release, and does not say %q", name, said)
		}
	}
}

// TestOnlyWhatIsServedIsProbed: operator.Run serves no probes.
func TestOnlyWhatIsServedIsProbed(t *testing.T) {
	for file, want := range map[string]bool{"base/deployment.yaml": false, "probes/kustomization.yaml": true} {
		raw, err := os.ReadFile(filepath.Join("..", "config", "operator", file))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(raw), "livenessProbe"); got != want {
			t.Errorf("config/operator/%s has a liveness probe: %v, want %v", file, got, want)
		}
	}
}

// TestTheIndexOfConfigHasEachDirectoryOnce, and tells to apply only what is a kustomization.
func TestTheIndexOfConfigHasEachDirectoryOnce(t *testing.T) {
	index := string(read(t, "../config/README.md"))
	dirs, _ := filepath.Glob("../config/*/*") // the pattern is well-formed
	dirs = slices.DeleteFunc(dirs, func(dir string) bool { return filepath.Base(filepath.Dir(dir)) == "kubebuilder" })
	dirs = append(dirs, "../config/kubebuilder") // one component
	for _, dir := range dirs {
		dir = strings.TrimPrefix(filepath.ToSlash(dir), "../config/")
		if n := strings.Count(index, "\n| ["+dir+"]("+dir+") | "); n != 1 {
			t.Errorf("config/README.md has %d lines for %s", n, dir)
		}
	}
	if rows := strings.Count(index, "\n| ["); rows != len(dirs) || rows == 0 {
		t.Errorf("config/README.md has %d lines for %d directories", rows, len(dirs))
	}
	for _, apply := range regexp.MustCompile("kubectl apply -k ([^`]*)").FindAllStringSubmatch(index, -1) {
		if _, err := os.Stat(filepath.Join("..", apply[1], "kustomization.yaml")); err != nil {
			t.Errorf("config/README.md: %s: %v", apply[0], err)
		}
	}
}
