// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package spans reads the spans that a candidate program has written.
package spans

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Span is a span as the candidate program writes it.
type Span struct {
	Name        string
	SpanContext struct{ TraceID, SpanID string }
	Parent      struct{ SpanID string }
	StartTime   time.Time
	EndTime     time.Time
}

// Duration is how long the span lasted.
func (s Span) Duration() time.Duration { return s.EndTime.Sub(s.StartTime) }

// Failover is the span of a takeover, with its phases in order.
type Failover struct {
	Span
	Phases []Span
}

// LastFailover reads the takeover that ended last from a file of spans.
func LastFailover(path string) (last Failover, err error) {
	spans, err := readSpans(path)
	if err != nil {
		return last, err
	}
	phases := map[string][]Span{}
	for _, s := range spans {
		phases[s.Parent.SpanID] = append(phases[s.Parent.SpanID], s)
		if s.Name == "election.failover" {
			last.Span = s
		}
	}
	if last.Name == "" {
		return last, fmt.Errorf("no election.failover in %s", path)
	}
	last.Phases = phases[last.SpanContext.SpanID]
	return last, nil
}

// readSpans reads a file of spans. The last one may not be written to its end yet.
func readSpans(path string) ([]Span, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read spans: %w", err)
	}
	defer file.Close()
	var all []Span
	for decoder := json.NewDecoder(file); ; {
		var s Span
		switch err := decoder.Decode(&s); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("read spans of %s: %w", path, err)
		}
		all = append(all, s)
	}
}
