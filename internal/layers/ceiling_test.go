// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/zonelect/zonelect/operator"
)

// ceiling is how much of each there may be. Who lands less lowers it to what there is now; who raises
// it says in the commit which promise needs the lines.
var ceiling = map[string]int{
	"lines of code":         19451, // without comments and blanks
	"lines of tests":        44011,
	"tokens of code":        146138,
	"tokens of tests":       377747,
	"words of Markdown":     28001,
	"direct requirements":   9,   // of the root module
	"exported names":        198, // of the root module, without fields
	"options":               18,  // fields of operator.Options
	"flags":                 13,  // of an operator
	"packages of internal":  14,  // the root module's
	"lines of over 140":     0,
	"lines of an afternoon": 2790, // of the files of docs/reading.md
	"files of over 500":     0,
}

func TestWhatThereIsStaysBelowTheCeiling(t *testing.T) {
	is := map[string]int{}
	internal := map[string]bool{}
	err := filepath.WalkDir("../..", func(name string, entry fs.DirEntry, err error) error {
		rel, _ := filepath.Rel("../..", name)
		file := filepath.ToSlash(rel)
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if file == "build" || file != "." && strings.HasPrefix(entry.Name(), ".") && file != ".github" {
				return filepath.SkipDir
			}
			return nil
		case strings.HasSuffix(file, ".md"):
			text, err := os.ReadFile(name)
			is["words of Markdown"] += len(strings.Fields(string(text)))
			return err
		case !strings.HasSuffix(file, ".go"):
			return nil
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		kind := "code"
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "test/") {
			kind = "tests"
		}
		lines, tokens := weigh(source)
		is["lines of "+kind] += lines
		is["tokens of "+kind] += tokens
		all := strings.Split(string(source), "\n")
		if len(all) > 501 {
			is["files of over 500"]++
		}
		for _, line := range all {
			if len([]rune(line)) > 140 {
				is["lines of over 140"]++
			}
		}
		if kind == "tests" {
			return nil
		}
		if dir := filepath.ToSlash(filepath.Dir(file)); strings.HasPrefix(dir, "internal/") {
			internal[dir] = true
		} else if isPublished(dir) {
			names, err := exported(name, source)
			is["exported names"] += names
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	is["packages of internal"] = len(internal)
	page, err := os.ReadFile("../../docs/reading.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range regexp.MustCompile(`\]\(\.\./(\S+\.go)\)`).FindAllStringSubmatch(string(page), -1) {
		source, err := os.ReadFile("../../" + link[1])
		if err != nil {
			t.Fatal(err)
		}
		lines, _ := weigh(source)
		is["lines of an afternoon"] += lines
	}
	requirements, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(requirements)) {
		if strings.HasPrefix(line, "\t") && !strings.Contains(line, "// indirect") {
			is["direct requirements"]++
		}
	}
	is["options"] = len(reflect.VisibleFields(reflect.TypeFor[operator.Options]()))
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(operator.Options).AddFlags(flags)
	flags.VisitAll(func(*pflag.Flag) { is["flags"]++ })

	for what, most := range ceiling {
		switch now := is[what]; {
		case now > most:
			t.Errorf("%s: %d, and the ceiling is %d: take out what the project can do without", what, now, most)
		case now < most-most/200:
			t.Errorf("%s: %d, and the ceiling is %d: lower it", what, now, most)
		}
	}
}

// weigh returns the lines of a file that are neither comment nor blank, and its tokens.
func weigh(source []byte) (lines, tokens int) {
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0)
	last := 0
	for {
		at, what, text := s.Scan()
		if what == token.EOF {
			return lines, tokens
		}
		if what == token.SEMICOLON && text == "\n" {
			continue
		}
		tokens++
		first := file.Line(at)
		end := first + strings.Count(text, "\n")
		lines += end - max(first-1, last)
		last = max(last, end)
	}
}

// isPublished reports whether others can import a package, a directory, of the root module.
func isPublished(dir string) bool {
	return house[dir] != "" && !slices.Contains(strings.Split(dir, "/"), "internal")
}

// exported counts what a file declares at its top for others, and its exported methods.
func exported(name string, source []byte) (names int, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, source, 0)
	if err != nil {
		return 0, err
	}
	ast.FileExports(file)
	for _, declaration := range file.Decls {
		group, isGroup := declaration.(*ast.GenDecl)
		switch {
		case !isGroup:
			names++
		case group.Tok != token.IMPORT:
			names += len(group.Specs)
		}
	}
	return names, nil
}
