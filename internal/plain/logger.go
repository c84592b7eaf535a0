// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package plain

import (
	"reflect"

	"github.com/go-logr/logr"
)

// Logger returns a logger that makes the texts and errors plain that it is given as values:
// klog writes a value with line ends as it is, and zap leaves C1 and format characters. It
// expects constant messages and keys.
func Logger(l logr.Logger) logr.Logger {
	inner := l.GetSink()
	if _, is := inner.(sink); is || inner == nil {
		return l
	}
	if deeper, is := inner.(logr.CallDepthLogSink); is {
		inner = deeper.WithCallDepth(1)
	}
	return l.WithSink(sink{inner})
}

// sink is the part of a Logger that others provide.
type sink struct{ logr.LogSink }

// Init does nothing: the other sink was used before.
func (sink) Init(logr.RuntimeInfo) {}

func (s sink) Info(level int, message string, pairs ...any) {
	s.LogSink.Info(level, message, values(pairs)...)
}

func (s sink) Error(err error, message string, pairs ...any) {
	if err != nil {
		err = plainError{err}
	}
	s.LogSink.Error(err, message, values(pairs)...)
}

func (s sink) WithValues(pairs ...any) logr.LogSink {
	return sink{s.LogSink.WithValues(values(pairs)...)}
}

func (s sink) WithName(name string) logr.LogSink { return sink{s.LogSink.WithName(name)} }

// WithCallDepth makes it a logr.CallDepthLogSink.
func (s sink) WithCallDepth(depth int) logr.LogSink {
	if deeper, is := s.LogSink.(logr.CallDepthLogSink); is {
		return sink{deeper.WithCallDepth(depth)}
	}
	return s
}

// plainError is an error whose text is plain.
type plainError struct{ error }

func (e plainError) Error() string { return Error(e.error) }

// Unwrap returns the error as it was.
func (e plainError) Unwrap() error { return e.error }

// values returns pairs of keys and values with plain texts.
func values(pairs []any) []any {
	all := make([]any, len(pairs))
	for i, v := range pairs {
		all[i] = value(v)
	}
	return all
}

func value(v any) any {
	switch v := v.(type) {
	case error:
		return plainError{v}
	case []string:
		all := make([]string, len(v))
		for i := range v {
			all[i] = Text(v[i])
		}
		return all
	}
	if r := reflect.ValueOf(v); r.Kind() == reflect.String {
		return Text(r.String())
	}
	return v
}
