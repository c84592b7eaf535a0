// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"io"
	"reflect"

	"github.com/zonelect/zonelect/internal/plain"
)

// Anybody may have written the texts of an object. So the arguments of say, the cells of printTable and the texts
// of object are made plain, because a line end in one of them would forge a row. Other control characters stop at
// the streams themselves, which are plain.Writers.

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
