// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package layers holds the test that keeps the house in order.
package layers

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/zonelect/zonelect/"

var (
	kubernetes = []string{"k8s.io/api/", "k8s.io/apimachinery/", "k8s.io/client-go/"}
	telemetry  = []string{"go.opentelemetry.io/otel", "github.com/cenkalti/backoff/v4", "github.com/go-logr/logr"}
)

// rules lists for each package, by its path in the module, what it may import
// beside the standard library: prefixes of import paths. A file has a rule of
// its own where it may import more.
var rules = map[string][]string{
	"election":              telemetry,
	"election/electiontest": {module + "election"},
	"internal/record":       join(kubernetes, module+"election"),
	"internal/transport":    join(kubernetes, module+"election", "github.com/cenkalti/backoff/v4"),
	"locks/lease":           join(kubernetes, module+"election", module+"internal/record", "github.com/cenkalti/backoff/v4", "github.com/go-logr/logr"),
	"zone":                  {module + "election"},
	"zone/lookup.go":        join(kubernetes, module+"election"),
	"operator":              join(kubernetes, module+"election", module+"internal/transport", module+"locks/", module+"zone", "github.com/go-logr/logr", "github.com/spf13/pflag"),
}

func join(first []string, more ...string) []string {
	return append(append([]string{}, first...), more...)
}

// allowed reports whether a file, by its path in the module, may import path.
func allowed(file, path string) bool {
	if !strings.Contains(strings.Split(path, "/")[0], ".") {
		return true // the standard library
	}
	rule, ok := rules[file]
	if !ok {
		rule = rules[filepath.ToSlash(filepath.Dir(file))]
	}
	for _, prefix := range rule {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}

func TestEveryPackageImportsOnlyWhatItsLayerAllows(t *testing.T) {
	root := filepath.Join("..", "..")
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return skip(root, path, d)
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files++
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		for _, spec := range parsed.Imports {
			if target, _ := strconv.Unquote(spec.Path.Value); !allowed(filepath.ToSlash(name), target) {
				t.Errorf("%s imports %s, which its layer does not allow", name, target)
			}
		}
		return nil
	})
	if err != nil || files < 30 {
		t.Fatalf("%d files were looked at: %v", files, err)
	}
}

// skip passes over other modules, and what is no source.
func skip(root, path string, d fs.DirEntry) error {
	if path == root {
		return nil
	}
	if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil || d.Name() == "build" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".." {
		return fs.SkipDir
	}
	return nil
}

func TestAForbiddenImportIsSeen(t *testing.T) {
	for _, c := range []struct {
		file, path string
		want       bool
	}{
		{"election/judge.go", "time", true},
		{"election/judge.go", "go.opentelemetry.io/otel/trace", true},
		{"election/judge.go", "k8s.io/client-go/rest", false},
		{"zone/order.go", "k8s.io/client-go/rest", false},
		{"zone/lookup.go", "k8s.io/client-go/rest", true},
		{"locks/lease/lock.go", module + "operator", false},
		{"internal/transport/dial.go", module + "operator", false},
		{"unknown/file.go", "k8s.io/client-go/rest", false},
	} {
		if got := allowed(c.file, c.path); got != c.want {
			t.Errorf("%s importing %s: allowed is %v, want %v", c.file, c.path, got, c.want)
		}
	}
}
