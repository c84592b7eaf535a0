// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"bufio"
	"fmt"
	"maps"
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

func write(t *testing.T, dir, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheReadmesProgramSaysWhatIsWrongAndEndsInGoodOrderOnCtrlC(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "program")
	main := write(t, dir, "main.go", doctest.ReadmesProgram(t, []byte(read(t, "../README.md"))))
	if out, err := exec.Command("go", "build", "-o", binary, main).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program := exec.Command(binary)
	config := write(t, dir, "config", nowhere)
	program.Env = append(os.Environ(), "POD_NAME=", "POD_NAMESPACE=", "KUBERNETES_SERVICE_HOST=", "KUBECONFIG="+config)
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
	write(t, dir, "main.go", doctest.ReadmesProgram(t, []byte(readme)))
	more := "package main\n"
	for _, module := range []string{"ctrlruntime", "leaderelection", "prometheus"} {
		more += fmt.Sprintf("\nimport _ %q\n", "github.com/zonelect/zonelect/operator/"+module)
	}
	write(t, dir, "more.go", more)
	steps := regexp.MustCompile(`(?m)^ {4}go work .*$`).FindAllString(readme, -1)
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

// TestTheReadmesDiffIsOfTheOneThatCompiles: it has fewer lines than docs/adopt-kubebuilder.md, which a test of the
// examples holds.
func TestTheReadmesDiffIsOfTheOneThatCompiles(t *testing.T) {
	block := regexp.MustCompile("(?s)```diff\n(.*?)```").FindStringSubmatch(read(t, "../README.md"))
	if block == nil {
		t.Fatal("the README has no diff")
	}
	whole := read(t, "adopt-kubebuilder.md")
	for line := range strings.Lines(block[1]) {
		if line != "...\n" && !strings.Contains(whole, "\n"+line) {
			t.Errorf("docs/adopt-kubebuilder.md has no line %q", line)
		}
	}
}

// paths of the packages that samples use, by their names there.
var paths = map[string]string{
	"context": "context", "errors": "errors", "flag": "flag", "time": "time",
	"election":      "github.com/zonelect/zonelect/election",
	"operator":      "github.com/zonelect/zonelect/operator",
	"pflag":         "github.com/spf13/pflag",
	"prometheus":    "github.com/zonelect/zonelect/operator/prometheus",
	"otlptracehttp": "go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp",
	"sdktrace":      "go.opentelemetry.io/otel/sdk/trace",
}

// sample returns a file in which a block of a document is the body of a function, and what it imports.
func sample(block string) (file string, imports []string) {
	block = regexp.MustCompile(`(?m)^\s*\.\.\.$`).ReplaceAllString(block, "_ = err")
	used := map[string]bool{"context": true, "election": true}
	for _, m := range regexp.MustCompile(`\b([a-z]+)\.[A-Z]`).FindAllStringSubmatch(block, -1) {
		used[m[1]] = true
	}
	text := "package samples\n\nimport (\n"
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if paths[name] != "" {
			imports = append(imports, paths[name])
			text += fmt.Sprintf("\t%s %q\n", name, paths[name])
		}
	}
	text += `)

func _(ctx context.Context, t interface{ Fatal(...any) }, lead, work func(context.Context, election.Term) error, tenants []string,
	workFor func(tenant string) func(context.Context, election.Term) error) error {
	{
` + block
	for _, m := range regexp.MustCompile(`(?m)^(?:var (\w+) |(\w+(?:, \w+)*) := )`).FindAllStringSubmatch(block, -1) {
		text += fmt.Sprintf("for _, _ = range []any{%s} {\n}\n", m[1]+m[2])
	}
	return text + "\t}\n\treturn nil\n}\n", imports
}

// TestTheSamplesOfTheDocumentsCompile: each block of Go but the README's program, which another test
// runs. A sample that needs a module that is not there, as when this one is tested alone, is left out.
func TestTheSamplesOfTheDocumentsCompile(t *testing.T) {
	list := append([]string{"list", "-e", "-f", "{{with .Error}}{{$.ImportPath}}{{end}}"}, slices.Sorted(maps.Values(paths))...)
	missing, err := exec.Command("go", list...).Output()
	if err != nil {
		t.Fatal(err)
	}
	n, dir, build := 0, t.TempDir(), []string{"build"}
	for name, text := range documents(t) {
		for _, block := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(block[1], "func main") {
				continue
			}
			n++
			file, imports := sample(block[1])
			if slices.ContainsFunc(imports, func(path string) bool { return slices.Contains(strings.Fields(string(missing)), path) }) {
				t.Logf("%s: no module has what this imports:\n%s", name, block[1])
				continue
			}
			build = append(build, write(t, dir, fmt.Sprintf("%s_%d.go", strings.ReplaceAll(name, "/", "_"), n), file))
		}
	}
	if n < 4 {
		t.Errorf("only %d samples were found", n)
	}
	if out, err := exec.Command("go", build...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
