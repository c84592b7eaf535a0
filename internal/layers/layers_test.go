// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package layers holds the test that keeps every package on its layer.
package layers

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/zonelect/zonelect/"

// outside are the modules of others, by short names. Each stands for all its packages.
var outside = map[string]string{
	"backoff":    "github.com/cenkalti/backoff/v4",
	"kubernetes": "k8s.io",
	"logr":       "github.com/go-logr/logr",
	"otel":       "go.opentelemetry.io/otel",
	"pflag":      "github.com/spf13/pflag",
}

// house says which packages, besides the standard library, each package may import, or one file of it. What
// no file of it imports is not allowed.
var house = map[string]string{
	"election": "backoff logr otel election/internal/metrics election/internal/rules election/status election/timing " +
		"internal/requests internal/sleep internal/transport/live locks",
	"election/internal/metrics": "otel locks",
	"election/internal/rules":   "election/status internal/requests locks",
	"election/status":           "",
	"election/timing":           "",

	"locks":            "",
	"locks/annotation": "kubernetes logr internal/apierror internal/rawapi internal/record locks",
	"locks/lease":      "kubernetes logr internal/apierror internal/rawapi internal/record locks",
	"locks/memory":     "locks",
	"locks/ownerref":   "kubernetes internal/apierror internal/rawapi internal/record",

	"locks/multilock":                    "kubernetes election/timing internal/presence locks locks/lease locks/ownerref",
	"locks/multilock/internal/candidate": "internal/phase internal/presence internal/record locks locks/lease locks/multilock locks/ownerref",
	"locks/multilock/shield": "backoff kubernetes logr internal/legacypods internal/phase internal/presence internal/rawapi " +
		"internal/record internal/sleep internal/transport/live locks locks/lease locks/multilock " +
		"locks/multilock/internal/candidate locks/multilock/shield/internal/shieldmap locks/ownerref",
	"locks/multilock/shield/internal/shieldmap": "kubernetes logr internal/apierror internal/rawapi internal/record locks/ownerref",
	"locks/multilock/twin": "kubernetes internal/apierror internal/phase internal/presence internal/rawapi internal/record internal/sleep " +
		"locks locks/annotation locks/lease locks/multilock locks/multilock/internal/candidate",

	"migrate": "kubernetes internal/apierror internal/inspect internal/legacypods internal/rawapi internal/record " +
		"internal/sleep locks locks/multilock locks/ownerref",
	"operator": "kubernetes logr otel pflag election election/status election/timing internal/environment " +
		"internal/legacypods internal/phase internal/presence internal/transport " +
		"locks locks/annotation locks/memory locks/multilock locks/multilock/shield locks/multilock/twin " +
		"operator/internal/events zone",
	"operator/internal/events": "kubernetes logr election election/status internal/environment",

	"zone": "election election/status locks",

	"zone/lookup.go": "kubernetes internal/apierror internal/rawapi",

	"internal/apierror": "kubernetes locks",
	"internal/environment": "kubernetes logr election/timing internal/phase internal/presence internal/rawapi internal/record " +
		"internal/sleep internal/transport locks locks/lease locks/multilock locks/multilock/shield " +
		"locks/multilock/twin locks/ownerref zone",
	"internal/inspect": "kubernetes election/status internal/apierror internal/presence internal/rawapi internal/record " +
		"internal/requests internal/sleep locks locks/multilock locks/ownerref",
	"internal/legacypods": "kubernetes logr internal/apierror internal/presence internal/rawapi internal/record locks locks/ownerref",
	"internal/phase": "kubernetes logr election/timing internal/presence internal/rawapi internal/record internal/sleep " +
		"locks locks/lease locks/ownerref",
	"internal/plain": "",
	"internal/presence": "backoff kubernetes logr election/timing internal/apierror internal/rawapi internal/record " +
		"internal/sleep internal/transport/live locks",
	"internal/rawapi":         "kubernetes internal/apierror internal/record internal/transport/live",
	"internal/record":         "kubernetes logr locks",
	"internal/requests":       "locks",
	"internal/sleep":          "backoff",
	"internal/transport":      "backoff kubernetes election/timing internal/sleep internal/transport/live",
	"internal/transport/live": "",
}

// testKits may import testing and everything, and only tests may import them: a program that uses
// one would contain package testing.
var testKits = []string{
	"election/electiontest", "locks/lockstest", "internal/apitest",
}

func TestEveryPackageImportsOnlyWhatItsLayerAllows(t *testing.T) {
	used := map[string]bool{} // package and permission
	files := 0
	err := filepath.WalkDir("../..", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if name != "../.." && isOutside(name, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		rel, err := filepath.Rel("../..", name)
		if err != nil {
			return err
		}
		files++
		imports, err := importsOf(name)
		if err != nil {
			return err
		}
		file := filepath.ToSlash(rel)
		for _, imported := range imports {
			permission, complaint := check(file, imported)
			if complaint != "" {
				t.Error(complaint)
			}
			used[permission] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Error("no Go file was found: the test looks in the wrong place")
	}
	for pkg, allowed := range house {
		for permission := range strings.FieldsSeq(allowed) {
			if !used[pkg+" "+permission] {
				t.Errorf("%s may import %s, and does not: take the permission away", pkg, permission)
			}
		}
	}
}

// isOutside reports whether a directory is not part of the root module.
func isOutside(dir, name string) bool {
	if name == "build" || name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return true
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

func importsOf(name string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var imports []string
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		imports = append(imports, imported)
	}
	return imports, nil
}

// check returns the row and the permission by which file, a path inside the module, imports a package, and a
// complaint if it may not.
func check(file, imported string) (permission, complaint string) {
	row, name := path.Dir(file), nameOf(imported)
	if slices.Contains(testKits, row) {
		return "", ""
	}
	if _, narrow := house[file]; narrow {
		row = file
	}
	allowed, found := house[row]
	switch {
	case !found:
		return "", fmt.Sprintf("%s: no row for %s in the table of layers", file, row)
	case name == "testing" || slices.Contains(testKits, name):
		return "", fmt.Sprintf("%s: imports %s, which only tests and test kits may", file, imported)
	case isStandard(imported):
		return "", ""
	case !slices.Contains(strings.Fields(allowed), name):
		return "", fmt.Sprintf("%s: imports %s, which its layer may not", file, imported)
	}
	return row + " " + name, ""
}

// nameOf returns the name of a package in the table.
func nameOf(imported string) string {
	if imported == "testing" || strings.HasPrefix(imported, "testing/") {
		return "testing"
	}
	for short, long := range outside {
		if imported == long || strings.HasPrefix(imported, long+"/") {
			return short
		}
	}
	return strings.TrimPrefix(imported, module)
}

// isStandard reports whether a package belongs to the standard library: the first element of
// any other import path has a dot. Cgo is not allowed.
func isStandard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return imported != "C" && !strings.Contains(first, ".")
}

func TestAForbiddenImportIsCaught(t *testing.T) {
	for _, test := range []struct {
		file, imported string
		allowed        bool
	}{
		{"election/lead.go", "time", true},
		{"election/lead.go", "go.opentelemetry.io/otel/trace", true},
		{"election/lead.go", "go.opentelemetry.io/otelish", false},
		{"election/lead.go", "k8s.io/api/coordination/v1", false},
		{"election/lead.go", "C", false},
		{"election/lead.go", module + "locks/lease", false},
		{"election/lead.go", "testing/synctest", false},
		{"election/electiontest/stage.go", "testing/synctest", true},
		{"locks/lease/lock.go", module + "internal/apitest", false},
		{"zone/lookup.go", "k8s.io/client-go/rest", true},
		{"zone/order.go", "k8s.io/client-go/rest", false},
		{"newcomer/new.go", "time", false},
	} {
		if _, complaint := check(test.file, test.imported); (complaint == "") != test.allowed {
			t.Errorf("%s importing %s: %q, want allowed: %v", test.file, test.imported, complaint, test.allowed)
		}
	}
}
