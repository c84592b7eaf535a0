// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package plain

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// verbatim is a sink that writes values as they are, as klog does with those of several lines.
type verbatim struct {
	lines  *[]string
	values []any
}

func (verbatim) Init(logr.RuntimeInfo) {}
func (verbatim) Enabled(int) bool      { return true }
func (v verbatim) Info(_ int, m string, pairs ...any) {
	*v.lines = append(*v.lines, fmt.Sprint(m, v.values, pairs))
}

func (v verbatim) Error(err error, m string, pairs ...any) {
	*v.lines = append(*v.lines, fmt.Sprint(err, m, v.values, pairs))
}
func (v verbatim) WithValues(pairs ...any) logr.LogSink { return verbatim{v.lines, pairs} }
func (v verbatim) WithName(string) logr.LogSink         { return v }

func TestALogHasNoTextThatMovesATerminal(t *testing.T) {
	type zone string
	const evil = "a\x1b[2J\u009b\u202e\nb"
	var lines []string
	l := Logger(logr.New(verbatim{lines: &lines}))
	l.Info("following", "holder", evil, "zone", zone(evil), "all", []string{evil}, "cause", errors.New(evil), "after", time.Second)
	l.WithName("x").WithValues("lock", evil).Error(fmt.Errorf("one: %w", errors.New(evil)), "broken", "at", evil)
	l.Error(nil, "none")
	for _, line := range lines {
		if strings.ContainsFunc(line, func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf) }) {
			t.Errorf("it logs %q", line)
		}
	}
	const shown = "a\ufffd[2J\ufffd\ufffd"
	if want := "one: " + shown + "; bbroken[lock " + shown + " b] [at " + shown + " b]"; len(lines) != 3 || lines[1] != want {
		t.Errorf("it logs %q, want %q", lines, want)
	}
}

// TestALoggerStaysWhatItWas: its level, where it was called, what its errors are, and none at
// all.
func TestALoggerStaysWhatItWas(t *testing.T) {
	var lines []string
	l := Logger(funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{LogCaller: funcr.All, Verbosity: 1}))
	l.V(1).Info("told")
	l.V(2).Info("not told")
	Logger(l).WithCallDepth(0).Info("told")
	if len(lines) != 2 || !strings.Contains(lines[0], `"logger_test.go"`) || !strings.Contains(lines[1], `"logger_test.go"`) {
		t.Errorf("it logs %q", lines)
	}
	if got := Logger(logr.Logger{}); got.GetSink() != nil {
		t.Errorf("no logger becomes %v", got)
	}
	if err := value(fmt.Errorf("x: %w", errTest)).(error); !errors.Is(err, errTest) {
		t.Errorf("%v is not what it was", err)
	}
}

var errTest = errors.New("test")
