// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package layers

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

// documented are the packages whose doc.go has tables below the package clause, each under its title, and the
// directories that their table of goroutines covers too. A row begins with a file, relative to the package's
// directory, and a function:
//
//	//	file.go  Type.method  what it does
var documented = map[string][]string{
	"election":                nil,
	"locks/multilock":         {"shield", "twin", "internal/candidate", "../../internal/presence", "../../internal/phase"},
	"operator":                {"../internal/transport", "internal/events"},
	"operator/leaderelection": nil,
	"operator/prometheus":     nil,
}

// place is a function in a file.
type place struct{ file, function string }

var row = regexp.MustCompile(`(?m)^//\t([\w./]+\.go) +((?:\w+\.)?\w+) {2,}\S`)

// TestEachPlaceToLookExists: each function under the title "Where to look" is in its file.
func TestEachPlaceToLookExists(t *testing.T) {
	for _, pkg := range []string{"election", "locks/multilock"} {
		for _, p := range table(t, pkg, "Where to look") {
			if !slices.Contains(slices.Collect(maps.Values(functions(t, pkg, p.file))), p.function) {
				t.Errorf("%s/doc.go says to look for %s in %s, which does not have it", pkg, p.function, p.file)
			}
		}
	}
}

// TestEachGoroutineIsListed: the table under the title "The goroutines" has every one that the package starts, by a go
// statement, a WaitGroup or a timer with a function. A function that starts two has two rows.
func TestEachGoroutineIsListed(t *testing.T) {
	for pkg, dirs := range documented {
		listed, started := map[place]int{}, map[place]int{}
		for _, p := range table(t, pkg, "The goroutines") {
			listed[p]++
		}
		for _, dir := range append(dirs, ".") {
			names, err := filepath.Glob(filepath.Join("../..", pkg, dir, "*.go"))
			if err != nil || len(names) == 0 {
				t.Fatalf("no Go files in %s of %s: %v", dir, pkg, err)
			}
			for _, name := range names {
				if strings.HasSuffix(name, "_test.go") {
					continue
				}
				file := filepath.Join(dir, filepath.Base(name))
				for decl, function := range functions(t, pkg, file) {
					ast.Inspect(decl, func(n ast.Node) bool {
						if starts(n) {
							started[place{file, function}]++
						}
						return true
					})
				}
			}
		}
		if !maps.Equal(started, listed) {
			t.Errorf("%s starts goroutines in %v\ndoc.go lists %v", pkg, started, listed)
		}
	}
}

// table returns the rows under a title, up to the end of the comment.
func table(t *testing.T, pkg, title string) (places []place) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", pkg, "doc.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, below, _ := strings.Cut(string(text), "\n// "+title+"\n")
	comment, _, _ := strings.Cut(below, "\n\n")
	for _, found := range row.FindAllStringSubmatch(comment, -1) {
		places = append(places, place{found[1], found[2]})
	}
	if len(places) == 0 {
		t.Fatalf("%s/doc.go has no rows under %q", pkg, title)
	}
	return places
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

// functions returns what a file declares, and the name of each function, with its receiver's type if it has one.
func functions(t *testing.T, pkg, name string) map[ast.Decl]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", pkg, name), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := map[ast.Decl]string{}
	for _, decl := range file.Decls {
		all[decl] = ""
		if f, is := decl.(*ast.FuncDecl); is {
			all[decl] = f.Name.Name
			if f.Recv != nil {
				receiver, _, _ := strings.Cut(types.ExprString(f.Recv.List[0].Type), "[") // without type parameters
				all[decl] = strings.TrimPrefix(receiver, "*") + "." + f.Name.Name
			}
		}
	}
	return all
}
