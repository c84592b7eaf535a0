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

// Phase returns a phase by its name. It is zero if there is none.
func (f Failover) Phase(name string) Span {
	for _, s := range f.Phases {
		if s.Name == name {
			return s
		}
	}
	return Span{}
}

// LastFailover reads the last takeover from a file of spans.
func LastFailover(path string) (Failover, error) {
	all, err := Failovers(path)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("no election.failover in %s", path)
	}
	if err != nil {
		return Failover{}, err
	}
	return all[len(all)-1], nil
}

// Failovers reads the takeovers from a file of spans, in the order in which they ended.
func Failovers(path string) ([]Failover, error) {
	spans, err := readSpans(path)
	phases := map[string][]Span{}
	for _, s := range spans {
		phases[s.Parent.SpanID] = append(phases[s.Parent.SpanID], s)
	}
	var all []Failover
	for _, s := range spans {
		if s.Name == "election.failover" {
			all = append(all, Failover{Span: s, Phases: phases[s.SpanContext.SpanID]})
		}
	}
	return all, err
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
