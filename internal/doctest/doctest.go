// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package doctest reads the tables in a package's doc.go, and checks them against the code. The tables are in
// comments below the package clause, each under its title. A row begins with a file, relative
// to the package's directory, and a function:
//
//	//	file.go  Type.method  what it does
package doctest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// place is a function in a file.
type place struct{ file, function string }

var row = regexp.MustCompile(`(?m)^//\t([\w./]+\.go) +((?:\w+\.)?\w+) {2,}\S`)

// CheckPlaces fails t unless each function under the title "Where to look" is in its
// file.
func CheckPlaces(t testing.TB) {
	t.Helper()
	for _, p := range table(t, "Where to look") {
		declared := slices.ContainsFunc(declarations(t, p.file), func(decl ast.Decl) bool { return nameOf(decl) == p.function })
		if !declared {
			t.Errorf("doc.go says to look for %s in %s, which does not have it", p.function, p.file)
		}
	}
}

// CheckGoroutines fails t unless the table under the title "The goroutines" lists every
// goroutine that the package under test, and those in dirs, start: by a go statement, a
// WaitGroup or a timer with a function. A function that starts two has two rows.
func CheckGoroutines(t testing.TB, dirs ...string) {
	t.Helper()
	listed, started := map[place]int{}, map[place]int{}
	for _, p := range table(t, "The goroutines") {
		listed[p]++
	}
	for _, dir := range append(dirs, ".") {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(names) == 0 {
			t.Fatalf("no Go files in %s: %v", dir, err)
		}
		for _, name := range names {
			if !strings.HasSuffix(name, "_test.go") {
				count(t, name, started)
			}
		}
	}
	if !maps.Equal(started, listed) {
		t.Errorf("the code starts goroutines in %v\ndoc.go lists %v", started, listed)
	}
}

// table returns the rows under a title, up to the end of the comment.
func table(t testing.TB, title string) (places []place) {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, below, _ := strings.Cut(string(text), "\n// "+title+"\n")
	comment, _, _ := strings.Cut(below, "\n\n")
	for _, found := range row.FindAllStringSubmatch(comment, -1) {
		places = append(places, place{found[1], found[2]})
	}
	if len(places) == 0 {
		t.Fatalf("doc.go has no rows under %q", title)
	}
	return places
}

// count adds to started how often each function of a file starts a goroutine.
func count(t testing.TB, name string, started map[place]int) {
	t.Helper()
	for _, decl := range declarations(t, name) {
		ast.Inspect(decl, func(n ast.Node) bool {
			if starts(n) {
				started[place{name, nameOf(decl)}]++
			}
			return true
		})
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

// declarations returns what a file declares.
func declarations(t testing.TB, name string) []ast.Decl {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return file.Decls
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
	receiver, _, _ := strings.Cut(types.ExprString(f.Recv.List[0].Type), "[") // without type parameters
	return strings.TrimPrefix(receiver, "*") + "." + f.Name.Name
}
