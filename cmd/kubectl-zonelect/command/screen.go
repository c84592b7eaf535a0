// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/plain"
)

// The values of --color.
const (
	colorAuto   = "auto"
	colorAlways = "always"
	colorNever  = "never"
)

var colorModes = []string{colorAuto, colorAlways, colorNever}

// sizeOf returns a function for the size of a terminal; zero if w is none.
func sizeOf(w io.Writer) func() (width, height int) {
	return func() (width, height int) {
		file, ok := w.(interface{ Fd() uintptr })
		if !ok || !term.IsTerminal(int(file.Fd())) {
			return 0, 0
		}
		width, height, err := term.GetSize(int(file.Fd()))
		if err != nil {
			return 0, 0
		}
		return width, height
	}
}

// capable reports whether the output is a terminal that understands control sequences. An old
// console of Windows does not.
func (e *environment) capable() bool {
	width, height := e.size()
	kind := e.variable("TERM")
	if runtime.GOOS == "windows" {
		return width > 0 && height > 0 && (kind != "" && kind != "dumb" || e.variable("WT_SESSION") != "")
	}
	return width > 0 && height > 0 && kind != "" && kind != "dumb"
}

// colors reports whether to use color.
func (e *environment) colors(mode string) bool {
	return mode == colorAlways || mode == colorAuto && e.variable("NO_COLOR") == "" && e.capable()
}

// color is the control sequence of one; empty for none.
type color string

// The colors: red for what is broken, yellow for what may be.
const (
	uncolored color = ""
	red       color = "\x1b[31m"
	yellow    color = "\x1b[33m"
	reset           = "\x1b[0m"
)

// colorOf is the color of a lock.
func colorOf(s LockStatus) color {
	v := s.Status.Vacancy
	switch {
	case v != nil && !v.Uncertain:
		return red
	case v != nil, s.Status.State == inspect.Waiting:
		return yellow
	}
	return uncolored
}

// line is one line of output and its color. Only its color moves a terminal.
type line struct {
	text string
	color
}

func (l line) String() string {
	text := plain.Text(l.text)
	if l.color == uncolored || text == "" {
		return text
	}
	return string(l.color) + text + reset
}

// raw writes lines with their colors, and control sequences before them, past the plain.Writer.
func raw(w io.Writer, lines []line, before ...string) error {
	if s, is := w.(plain.Writer); is {
		w = s.Writer
	}
	text := strings.Join(before, "")
	for _, l := range lines {
		text += l.String() + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// linesOf returns what print prints.
func linesOf(print func(io.Writer) error) ([]line, error) {
	var b bytes.Buffer
	if err := print(&b); err != nil {
		return nil, err
	}
	return split(b.String()), nil
}

func split(text string) []line {
	var lines []line
	for one := range strings.Lines(text) {
		lines = append(lines, line{text: strings.TrimSuffix(one, "\n")})
	}
	return lines
}

// fold breaks lines that are wider than a terminal, between words if it can.
func fold(lines []line, width int) []line {
	var all []line
	for _, l := range lines {
		text := []rune(l.text)
		for len(text) > width {
			at := width
			if space := strings.LastIndex(string(text[:width+1]), " "); space > 0 {
				at = utf8.RuneCountInString(string(text[:width+1])[:space])
			}
			all = append(all, line{strings.TrimRight(string(text[:at]), " "), l.color})
			text = []rune(strings.TrimLeft(string(text[at:]), " "))
		}
		all = append(all, line{string(text), l.color})
	}
	return all
}

// cut leaves that many lines, the last of which says how many are missing.
func cut(lines []line, most int) []line {
	switch {
	case len(lines) <= most:
		return lines
	case most <= 0:
		return nil
	}
	return append(lines[:most-1:most-1], line{text: fmt.Sprintf("(%d lines more)", len(lines)-most+1)})
}

// widest is the width of the widest line.
func widest(lines []line) int {
	most := 0
	for _, l := range lines {
		most = max(most, utf8.RuneCountInString(l.text))
	}
	return most
}

// frame is a part of a terminal that is drawn again and again. What is above it stays.
type frame struct {
	out   io.Writer // of a terminal
	drawn int       // how many lines it has now
	last  []line
}

// draw replaces what was drawn before, and prints lines for good above it. It cuts what does
// not fit into the terminal, because only what can be seen can be replaced. The last line stays, and
// of the remarks before it as many as have a place in half of the terminal.
func (f *frame) draw(above, lines, remarks []line, last line, width, height int) error {
	end := cut(fold([]line{last}, width), max(1, height-1))
	most := max(0, height-1-len(end))
	lines, remarks = fold(lines, width), fold(remarks, width)
	lines = cut(lines, max(most-len(remarks), (most+1)/2))
	lines = append(lines, cut(remarks, most-len(lines))...)
	lines = append(lines, end...)
	if slices.Equal(lines, f.last) && len(above) == 0 {
		return nil
	}
	f.last = lines
	before := ""
	if f.drawn > 0 {
		before = fmt.Sprintf("\x1b[%dA\r\x1b[J", f.drawn)
	}
	f.drawn = len(lines)
	return raw(f.out, append(slices.Clone(above), lines...), before)
}
