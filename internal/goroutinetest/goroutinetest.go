// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package goroutinetest holds the goroutines that a package starts against the list
// of them in its doc.go. Below the package clause, each row of that list is
//
//	//	Type.method  what runs, what it is for; until when
//
// for a function that starts one: by a go statement, a WaitGroup or a timer with a
// function. One that starts two has two rows.
package goroutinetest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var row = regexp.MustCompile(`^//\t((?:\w+/)?(?:\w+\.)?\w+) {2,}\S.*; `)

// CheckList fails t unless doc.go of the package under test lists what is started by
// it, and by the packages in dirs, of which the rows begin with the last element and a
// slash.
func CheckList(t testing.TB, dirs ...string) {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "\npackage ")
	listed := map[string]int{}
	for line := range strings.Lines(list) {
		if found := row.FindStringSubmatch(line); found != nil {
			listed[found[1]]++
		}
	}
	if len(listed) == 0 {
		t.Fatal("doc.go lists no goroutines")
	}
	started := map[string]int{}
	count(t, ".", "", started)
	for _, dir := range dirs {
		count(t, dir, path.Base(dir)+"/", started)
	}
	if !maps.Equal(started, listed) {
		t.Errorf("the code starts goroutines in %v\ndoc.go lists %v", started, listed)
	}
}

// count adds to started how often each function in a directory starts one.
func count(t testing.TB, dir, prefix string, started map[string]int) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no Go files in %s: %v", dir, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			ast.Inspect(decl, func(n ast.Node) bool {
				if starts(n) {
					started[prefix+nameOf(decl)]++
				}
				return true
			})
		}
	}
}

// starts reports whether a goroutine begins here.
func starts(n ast.Node) bool {
	if call, is := n.(*ast.CallExpr); is {
		selector, is := call.Fun.(*ast.SelectorExpr)
		return is && slices.Contains([]string{"Go", "AfterFunc"}, selector.Sel.Name)
	}
	_, is := n.(*ast.GoStmt)
	return is
}

// nameOf returns a function's name, with its receiver's type if it has one.
func nameOf(decl ast.Decl) string {
	f, is := decl.(*ast.FuncDecl)
	if !is {
		return ""
	}
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	if pointer, is := receiver.(*ast.StarExpr); is {
		receiver = pointer.X
	}
	return fmt.Sprint(receiver, ".", f.Name)
}
