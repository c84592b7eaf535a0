// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const module = "github.com/zonelect/zonelect"

func write(t *testing.T, dir, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

var program = regexp.MustCompile("(?s)```go\n(func main.*?)```")

// readmesProgram returns the program that the README's text shows, with what it needs to be one
// file.
func readmesProgram(t *testing.T) string {
	t.Helper()
	block := program.FindStringSubmatch(read(t, "../README.md"))
	if block == nil {
		t.Fatal("the README has no program")
	}
	return `package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/operator"
)

` + block[1]
}

// TestTheReadmesWayToInstallResolves runs the commands that the README has for as long as nothing is
// released, in a module of its own that imports what the README names.
func TestTheReadmesWayToInstallResolves(t *testing.T) {
	readme := read(t, "../README.md")
	root, _ := filepath.Abs("..")
	dir := t.TempDir()
	write(t, dir, "go.mod", "module example.com/operator\n\ngo 1.25.0\n")
	write(t, dir, "main.go", readmesProgram(t))
	more := "package main\n"
	for _, name := range []string{"ctrlruntime", "leaderelection", "prometheus"} {
		more += fmt.Sprintf("\nimport _ %q\n", module+"/operator/"+name)
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
	for line := range strings.Lines(block[1]) {
		if line != "...\n" && !strings.Contains(read(t, "adopt-kubebuilder.md"), "\n"+line) {
			t.Errorf("docs/adopt-kubebuilder.md has no line %q", line)
		}
	}
}

// sample returns a file in which a block of a document is the body of a function.
func sample(block string) string {
	block = regexp.MustCompile(`(?m)^\s*\.\.\.$`).ReplaceAllString(block, "_ = err")
	for _, m := range regexp.MustCompile(`(?m)^(?:var (\w+) |(\w+(?:, \w+)*) := )`).FindAllStringSubmatch(block, -1) {
		block += fmt.Sprintf("for _, _ = range []any{%s} {\n}\n", m[1]+m[2])
	}
	body := `
func _(ctx context.Context, t interface{ Fatal(...any) }, work func(context.Context, election.Term) error, tenants []string,
	workFor func(tenant string) func(context.Context, election.Term) error) error {
	{
` + block + "\t}\n\treturn nil\n}\n"
	head := "package samples\n\n"
	for _, p := range []string{"context", "flag", "time", module + "/election", module + "/operator", module + "/operator/prometheus"} {
		if strings.Contains(body, path.Base(p)+".") {
			head += fmt.Sprintf("import %q\n", p)
		}
	}
	return head + body
}

// TestTheSamplesOfTheDocumentsCompile: each block of Go, and the README's program. Those that need
// the module of Prometheus are left out where this one is tested alone.
func TestTheSamplesOfTheDocumentsCompile(t *testing.T) {
	alone := exec.Command("go", "list", module+"/operator/prometheus").Run() != nil
	dir, build := t.TempDir(), []string{"build"}
	for name, text := range documents(t) {
		for _, block := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(text, -1) {
			if !strings.HasPrefix(block[1], "func main") && (!alone || !strings.Contains(block[1], "prometheus.")) {
				build = append(build, write(t, dir, fmt.Sprintf("%s_%d.go", strings.ReplaceAll(name, "/", "_"), len(build)), sample(block[1])))
			}
		}
	}
	if len(build) < 4 {
		t.Errorf("only %d samples were found", len(build)-1)
	}
	program := write(t, dir, "main.go", readmesProgram(t))
	for _, args := range [][]string{build, {"build", "-o", filepath.Join(dir, "program"), program}} {
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}
