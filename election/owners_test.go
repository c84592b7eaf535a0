// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"
)

// TestEachFieldHasOneWriter: the methods of one type assign to a field. Functions that make a value
// may do so too.
func TestEachFieldHasOneWriter(t *testing.T) {
	for _, dir := range []string{".", "internal/rules"} {
		fields := writers(t, dir)
		for field, by := range fields {
			if len(by) > 1 {
				t.Errorf("%s: the methods of %d types write %s: %v", dir, len(by), field, by)
			}
		}
		if len(fields) < 20 {
			t.Errorf("%s: %d fields", dir, len(fields))
		}
		t.Logf("%s: %d fields", dir, len(fields))
	}
}

// writers returns the types whose methods assign to a field, by field, for all struct types of the
// package in dir.
func writers(t *testing.T, dir string) map[string]map[string]bool {
	set, sources := token.NewFileSet(), []*ast.File{}
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_other.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, f)
	}
	// What other packages have is not known, and need not be: no code here writes their fields.
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Error: func(error) {}, Importer: nothing{}}
	pkg, _ := config.Check(dir, set, sources, info)
	owners := map[types.Object]string{}
	for _, name := range pkg.Scope().Names() {
		if s, is := pkg.Scope().Lookup(name).Type().Underlying().(*types.Struct); is {
			for f := range s.Fields() {
				owners[f] = name
			}
		}
	}
	by := map[string]map[string]bool{}
	for _, f := range sources {
		for _, d := range f.Decls {
			method, is := d.(*ast.FuncDecl)
			if !is || method.Recv == nil {
				continue
			}
			receiver := strings.TrimPrefix(types.ExprString(method.Recv.List[0].Type), "*")
			write := func(e ast.Expr) {
				s, is := e.(*ast.SelectorExpr)
				if !is {
					return
				}
				owner, is := owners[info.Uses[s.Sel]]
				if !is || isValue(info, s.X) {
					return
				}
				field := owner + "." + s.Sel.Name
				if by[field] == nil {
					by[field] = map[string]bool{}
				}
				by[field][receiver] = true
			}
			ast.Inspect(method, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					for _, e := range n.Lhs {
						write(e)
					}
				case *ast.IncDecStmt:
					write(n.X)
				}
				return true
			})
		}
	}
	return by
}

// isValue reports whether e is a variable that holds a struct, of which nobody else sees a change.
func isValue(info *types.Info, e ast.Expr) bool {
	name, is := e.(*ast.Ident)
	if !is || info.Uses[name] == nil {
		return false
	}
	_, points := info.Uses[name].Type().(*types.Pointer)
	return !points
}

type nothing struct{}

func (nothing) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, path[strings.LastIndex(path, "/")+1:])
	p.MarkComplete()
	return p, nil
}
