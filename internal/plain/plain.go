// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plain makes text harmless that others wrote and people see. A terminal obeys control
// characters, a format character hides or reorders what is beside it, and a line end forges a
// row.
package plain

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns a text of one line. Each white space becomes a space, also a line end. Whatever
// else cannot be seen becomes U+FFFD. The number of characters stays the same.
func Text(s string) string { return strings.Map(visible, s) }

// Error returns the text of an error as one line. A line end becomes a semicolon: errors that
// are joined have one each.
func Error(err error) string {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(Text(line)); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

// visible returns what stands for a character in one line.
func visible(r rune) rune {
	switch {
	case unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
		return r
	case unicode.IsSpace(r):
		return ' '
	}
	return utf8.RuneError
}

// Writer writes what [Text] makes of each line, and keeps line ends and tabs. A character must
// come with one Write.
type Writer struct{ io.Writer }

// Write writes p, or returns an error.
func (w Writer) Write(p []byte) (int, error) {
	text := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return visible(r)
	}, string(p))
	if _, err := io.WriteString(w.Writer, text); err != nil {
		return 0, err
	}
	return len(p), nil
}
