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

const module = "github.com/zonelect/zonelect"

const (
	backoff    = "github.com/cenkalti/backoff/v4"
	logr       = "github.com/go-logr/logr"
	otel       = "go.opentelemetry.io/otel"
	kubernetes = "k8s.io"
	pflag      = "github.com/spf13/pflag"
	election   = module + "/election"
	timing     = election + "/timing"
	internal   = module + "/internal"
	apierror   = internal + "/apierror"
	apitest    = internal + "/apitest"
	doctest    = internal + "/doctest"
	httpserver = internal + "/httpserver"
	inspect    = internal + "/inspect"
	leasewatch = internal + "/leasewatch"
	metrics    = internal + "/metrics"
	rawapi     = internal + "/rawapi"
	patience   = internal + "/patience"
	presence   = internal + "/presence"
	record     = internal + "/record"
	plain      = internal + "/plain"
	sleep      = internal + "/sleep"
	locks      = module + "/locks" // the contract alone, not the packages below it
	memory     = locks + "/memory"
	lease      = locks + "/lease"
	heartbeat  = locks + "/heartbeat"
	annotation = locks + "/annotation"
	ownerref   = locks + "/ownerref"
	multilock  = locks + "/multilock"
	shield     = multilock + "/shield"
	twin       = multilock + "/twin"
	leaseOnly  = multilock + "/leaseonly"
	candidate  = multilock + "/internal/candidate"
	zone       = module + "/zone"
	migrate    = module + "/migrate"
	operator   = module + "/operator"
)

// row says which packages, besides the standard library, the packages at and below a
// directory may import. Each entry stands for itself and everything below it, except for
// locks. No package imports a test kit: a program that uses it would contain package testing.
type row struct {
	allowed []string
	denied  []string            // wins over allowed
	inFile  map[string][]string // allowed in the file of that name alone
}

// onTheAPI is the row of a lock on one kind of object.
var onTheAPI = row{allowed: []string{locks, kubernetes, apierror, rawapi, record, logr, backoff}}

// testKits may import testing, and each other.
var testKits = []string{election + "/electiontest", locks + "/lockstest", multilock + "/internal/multilocktest", apitest, doctest}

// behindMultilock are the packages that others use only through package multilock.
var behindMultilock = []string{shield, twin, leaseOnly, candidate}

// house is the table of docs/design.md. The row with the longest directory
// counts; a package without one fails.
var house = map[string]row{
	"locks":            {},
	"locks/memory":     {allowed: []string{locks}},
	"locks/lockstest":  {allowed: []string{locks}},
	"locks/lease":      onTheAPI,
	"locks/heartbeat":  {allowed: append([]string{timing, lease, leasewatch, sleep}, onTheAPI.allowed...)},
	"locks/ownerref":   {allowed: append([]string{presence}, onTheAPI.allowed...)},
	"locks/annotation": onTheAPI,
	"locks/multilock":  {allowed: []string{shield, twin, leaseOnly, candidate}},
	"locks/multilock/shield": {
		allowed: append([]string{timing, candidate, lease, ownerref, patience, sleep}, onTheAPI.allowed...),
	},
	"locks/multilock/twin": {
		allowed: append([]string{timing, candidate, lease, annotation, ownerref}, onTheAPI.allowed...),
	},
	"locks/multilock/leaseonly": {
		allowed: append([]string{timing, candidate, lease, ownerref, patience}, onTheAPI.allowed...),
	},
	"locks/multilock/internal/candidate": {
		allowed: append([]string{timing, lease, heartbeat, leasewatch, ownerref, patience, presence, sleep}, onTheAPI.allowed...),
	},
	"locks/multilock/internal/multilocktest": {
		allowed: []string{election, locks, lease, candidate, shield, leaseOnly, ownerref, presence, sleep, kubernetes},
	},
	"election":                {allowed: []string{election, locks, metrics, sleep, otel, backoff, logr}},
	"election/status":         {},
	"election/timing":         {},
	"election/internal/rules": {allowed: []string{election + "/status", locks}},
	"election/electiontest":   {allowed: []string{election, locks, memory}},
	"migrate": {
		allowed: append([]string{annotation, ownerref, multilock, inspect, presence, sleep}, onTheAPI.allowed...),
		denied:  behindMultilock,
	},
	"config": {}, // the plugin prints it
	"zone": {
		allowed: []string{election, locks},
		inFile:  map[string][]string{"lookup.go": {kubernetes}},
	},
	"operator": {
		allowed: []string{election, locks, memory, lease, heartbeat, annotation, ownerref, multilock, zone, migrate, internal, kubernetes, pflag, otel, backoff, logr},
		denied:  behindMultilock,
	},
	"internal/httpserver":    {},
	"internal/inspect":       {allowed: []string{election + "/status", locks, heartbeat, ownerref, multilock, kubernetes, apierror, rawapi, record, presence, sleep}, denied: behindMultilock},
	"internal/leasewatch":    {allowed: []string{locks, kubernetes, apierror, rawapi, record, sleep, logr, backoff}},
	"internal/leaderservice": {allowed: []string{locks, kubernetes, apierror, rawapi, record, sleep, logr, backoff}},
	"internal/metrics":       {allowed: []string{locks, otel}},
	"internal/presence":      {allowed: []string{locks, kubernetes, apierror, rawapi, record, backoff}},
	"internal/timeline":      {allowed: []string{plain}},             // the plugin and the tests draw with it
	"internal/patience":      {allowed: []string{locks, kubernetes}}, // the errors of the API
	"internal/plain":         {allowed: []string{logr}},
	"internal/proof":         {allowed: []string{locks, kubernetes, apierror, patience, rawapi, logr, backoff}},
	"internal/apitest":       {allowed: []string{kubernetes}},
	"internal": {
		allowed: []string{timing, locks, internal, kubernetes, otel, backoff, logr},
		denied:  []string{operator, zone, migrate},
	},
}

func TestEveryPackageImportsOnlyWhatItsLayerAllows(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if name != root && isOutside(name, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		files++
		imports, err := importsOf(name)
		if err != nil {
			return err
		}
		for _, complaint := range check(filepath.ToSlash(rel), imports) {
			t.Error(complaint)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Error("no Go file was found: the test looks in the wrong place")
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

// check returns a complaint for each import that file, a path inside the
// module, may not have.
func check(file string, imports []string) []string {
	dir := path.Dir(file)
	r, found := rowOf(dir)
	if !found {
		return []string{fmt.Sprintf("%s: no row for %s in the table of layers", file, dir)}
	}
	allowed := append(slices.Clone(r.allowed), r.inFile[path.Base(file)]...)
	var complaints []string
	for _, imported := range imports {
		switch {
		case covers([]string{"testing"}, imported) || covers(testKits, imported):
			if !covers(testKits, module+"/"+dir) {
				complaints = append(complaints, fmt.Sprintf("%s: imports %s, which only tests and test kits may", file, imported))
			}
		case isStandard(imported):
		case !covers(allowed, imported), covers(r.denied, imported):
			complaints = append(complaints, fmt.Sprintf("%s: imports %s, which its layer may not", file, imported))
		}
	}
	return complaints
}

// rowOf returns the row of the longest directory that holds dir.
func rowOf(dir string) (row, bool) {
	for at := dir; at != "."; at = path.Dir(at) {
		if r, found := house[at]; found && (at != "locks" || at == dir) {
			return r, true
		}
	}
	return row{}, false
}

// isStandard reports whether a package belongs to the standard library: the first element of
// any other import path has a dot. Cgo is not allowed.
func isStandard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return imported != "C" && !strings.Contains(first, ".")
}

func covers(prefixes []string, imported string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		return imported == prefix || prefix != locks && strings.HasPrefix(imported, prefix+"/")
	})
}

func TestAForbiddenImportIsCaught(t *testing.T) {
	for _, test := range []struct {
		file, imported string
		allowed        bool
	}{
		{"election/lead.go", "time", true},
		{"election/lead.go", otel + "/trace", true},
		{"election/lead.go", backoff, true},
		{"election/lead.go", "k8s.io/api/coordination/v1", false},
		{"election/lead.go", locks + "/lease", false},
		{"election/lead.go", "go.opentelemetry.io/otelish", false},
		{"election/lead.go", "C", false},
		{"election/lead.go", locks, true},
		{"election/lead.go", locks + "/memory", false},
		{"election/lead.go", "testing", false},
		{"election/lead.go", election + "/internal/rules", true},
		{"election/internal/rules/free.go", locks, true},
		{"election/internal/rules/free.go", election, false},
		{"election/internal/rules/free.go", internal + "/sleep", false},
		{"election/status/status.go", locks, false},
		{"election/timing/timing.go", locks, false},
		{"locks/multilock/shield/lock.go", timing, true},
		{"locks/multilock/shield.go", election, false},
		{"internal/transport/options.go", timing, true},
		{"internal/transport/options.go", election, false},
		{"election/electiontest/stage.go", election, true},
		{"election/electiontest/stage.go", "testing/synctest", true},
		{"election/electiontest/stage.go", locks + "/lockstest", true},
		{"election/electiontest/stage.go", logr, false},
		{"locks/record.go", election, false},
		{"locks/lockstest/suite.go", "testing", true},
		{"locks/lockstest/suite.go", locks, true},
		{"locks/lease/lock.go", election, false},
		{"locks/lease/lock.go", "k8s.io/client-go/rest", true},
		{"locks/lease/lock.go", record, true},
		{"locks/ownerref/lock.go", rawapi, true},
		{"locks/ownerref/legacypods.go", presence, true},
		{"locks/ownerref/legacypods.go", apitest, false},
		{"locks/lease/lock.go", presence, false},
		{"locks/annotation/lock.go", apierror, true},
		{"locks/annotation/lock.go", locks + "/lease", false},
		{"locks/lease/lock.go", internal + "/transport", false},
		{"locks/lease/lock.go", operator, false},
		{"locks/unheardof/lock.go", "time", false},
		{"zone/lookup.go", "k8s.io/client-go/rest", true},
		{"zone/order.go", "k8s.io/client-go/rest", false},
		{"zone/order.go", election, true},
		{"locks/multilock/multilock.go", shield, true},
		{"locks/multilock/multilock.go", ownerref, false},
		{"locks/multilock/shield/lock.go", candidate, true},
		{"locks/multilock/shield/lock.go", twin, false},
		{"locks/multilock/shield/lock.go", leaseOnly, false},
		{"locks/multilock/shield/lock.go", multilock, false},
		{"locks/multilock/shield/lock.go", annotation, false},
		{"locks/multilock/shield/lock.go", multilock + "/internal/multilocktest", false},
		{"locks/multilock/twin/lock.go", candidate, true},
		{"locks/multilock/twin/lock.go", shield, false},
		{"locks/multilock/leaseonly/lock.go", candidate, true},
		{"locks/multilock/leaseonly/lock.go", shield, false},
		{"locks/multilock/internal/candidate/lease.go", shield, false},
		{"locks/multilock/internal/multilocktest/stage.go", "testing", true},
		{"locks/lease/lock.go", candidate, false},
		{"operator/self.go", candidate, false},
		{"operator/self.go", shield, false},
		{"operator/self.go", multilock, true},
		{"operator/self.go", zone, true},
		{"operator/self.go", internal + "/transport", true},
		{"operator/self.go", "sigs.k8s.io/controller-runtime", false},
		{"internal/transport/dial.go", "k8s.io/client-go/transport", true},
		{"internal/transport/dial.go", operator, false},
		{"internal/transport/dial.go", locks + "/lease", false},
		{"internal/transport/dial.go", zone, false},
		{"internal/transport/dial.go", migrate, false},
		{"internal/presence/presence.go", rawapi, true},
		{"internal/presence/presence.go", locks + "/ownerref", false},
		{"internal/inspect/read.go", presence, true},
		{"internal/inspect/read.go", migrate, false},
		{"internal/inspect/read.go", election, false},
		{"migrate/inspect.go", inspect, true},
		{"locks/multilock/keeper.go", inspect, false},
		{"internal/proof/proof.go", rawapi, true},
		{"internal/proof/proof.go", locks + "/lease", false},
		{"internal/timeline/render.go", "html/template", true},
		{"internal/timeline/render.go", locks, false},
		{"internal/rawapi/rawapi.go", apitest, false},
		{"operator/self.go", apitest, false},
		{"operator/self.go", election + "/electiontest", false},
		{"operator/self.go", "testing", false},
		{"newcomer/new.go", "time", false},
		{"root.go", "time", false},
	} {
		complaints := check(test.file, []string{test.imported})
		if got := len(complaints) == 0; got != test.allowed {
			t.Errorf("%s importing %s: allowed is %v, want %v (%q)", test.file, test.imported, got, test.allowed, complaints)
		}
	}
}
