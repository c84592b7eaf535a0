// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/zonelect/zonelect/internal/plain"
)

// Anybody may have written the texts of an object. So the arguments of say, the cells of printTable and the texts of printObject are made
// plain, because a line end in one of them would forge a row. Other control characters stop at the streams
// themselves, which are plain.Writers.

// say prints. An argument that is a text, an error or a Stringer stays within its line.
func say(w io.Writer, format string, args ...any) error {
	said := make([]any, len(args))
	for i, arg := range args {
		said[i] = within(arg)
	}
	_, err := fmt.Fprintf(w, format, said...)
	return err
}

// within returns an argument of say as a text of one line, or the argument if it is not a text.
func within(arg any) any {
	switch a := arg.(type) {
	case error:
		return plain.Error(a)
	case fmt.Stringer:
		return plain.Text(a.String())
	}
	if v := reflect.ValueOf(arg); v.Kind() == reflect.String {
		return plain.Text(v.String())
	}
	return arg
}

// tell prints something beside the result. An error has no place to be reported.
func tell(w io.Writer, format string, args ...any) { _ = say(w, format, args...) }

// printObject prints a copy of an object, whose texts are plain. JSON paths and templates read
// the same copy.
func printObject(w io.Writer, p printers.ResourcePrinter, o runtime.Object) error {
	raw, err := json.Marshal(o)
	if err != nil {
		return err
	}
	var tree any
	numbers := json.NewDecoder(bytes.NewReader(raw))
	numbers.UseNumber()
	if err := numbers.Decode(&tree); err != nil {
		return err
	}
	if raw, err = json.Marshal(plainTree(tree)); err != nil {
		return err
	}
	c, is := reflect.New(reflect.TypeOf(o).Elem()).Interface().(runtime.Object)
	if !is {
		return fmt.Errorf("%T has no copy", o)
	}
	if err := json.Unmarshal(raw, c); err != nil {
		return err
	}
	return p.PrintObj(c, w)
}

// plainTree returns a value of JSON with plain texts.
func plainTree(v any) any {
	switch v := v.(type) {
	case string:
		return plain.Text(v)
	case []any:
		for i := range v {
			v[i] = plainTree(v[i])
		}
	case map[string]any:
		all := make(map[string]any, len(v))
		for key, value := range v {
			all[plain.Text(key)] = plainTree(value)
		}
		return all
	}
	return v
}
