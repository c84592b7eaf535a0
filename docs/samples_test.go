// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	goBlock  = regexp.MustCompile("(?s)```go\n(.*?)```")
	imported = regexp.MustCompile(`\b([a-z]+)\.[A-Z]`)
	declared = regexp.MustCompile(`(?m)^(?:var (\w+) |(\w+(?:, \w+)*) := )`)
)

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
	for _, m := range imported.FindAllStringSubmatch(block, -1) {
		used[m[1]] = true
	}
	text := &strings.Builder{}
	text.WriteString("package samples\n\nimport (\n")
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if paths[name] != "" {
			imports = append(imports, paths[name])
			fmt.Fprintf(text, "\t%s %q\n", name, paths[name])
		}
	}
	text.WriteString(`)

func _(ctx context.Context, t interface{ Fatal(...any) }, lead, work func(context.Context, election.Term) error, tenants []string,
	workFor func(tenant string) func(context.Context, election.Term) error) error {
	{
` + block)
	for _, m := range declared.FindAllStringSubmatch(block, -1) {
		for name := range strings.SplitSeq(m[1]+m[2], ",") {
			fmt.Fprintf(text, "_ = %s\n", strings.TrimSpace(name))
		}
	}
	text.WriteString("\t}\n\treturn nil\n}\n")
	return text.String(), imports
}

// TestTheSamplesOfTheDocumentsCompile: each block of Go but the README's program, which other tests
// run. A sample that needs a module that is not there, as when this one is tested alone, is left out.
func TestTheSamplesOfTheDocumentsCompile(t *testing.T) {
	list := append([]string{"list", "-e", "-f", "{{with .Error}}{{$.ImportPath}}{{end}}"}, slices.Sorted(maps.Values(paths))...)
	missing, err := exec.Command("go", list...).Output()
	if err != nil {
		t.Fatal(err)
	}
	found, dir, build := 0, t.TempDir(), []string{"build"}
	for name, text := range documents(t) {
		for _, block := range goBlock.FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(block[1], "func main") {
				continue
			}
			found++
			file, imports := sample(block[1])
			if slices.ContainsFunc(imports, func(path string) bool { return slices.Contains(strings.Fields(string(missing)), path) }) {
				t.Logf("%s: no module has what this imports:\n%s", name, block[1])
				continue
			}
			build = append(build, write(t, dir, fmt.Sprintf("%s_%d.go", strings.ReplaceAll(name, "/", "_"), found), file))
		}
	}
	if found < 4 {
		t.Errorf("only %d samples were found", found)
	}
	if out, err := exec.Command("go", build...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
