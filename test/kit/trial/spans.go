// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

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
	Attributes  []struct {
		Key   string
		Value struct{ Value any }
	}
	Links []struct{ SpanContext struct{ TraceID string } }
}

// Duration is how long the span lasted.
func (s Span) Duration() time.Duration { return s.EndTime.Sub(s.StartTime) }

// Attribute returns an attribute's value as text; empty if there is none.
func (s Span) Attribute(key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return fmt.Sprint(a.Value.Value)
		}
	}
	return ""
}

// Failover is the span of a takeover, with its phases in order.
type Failover struct {
	Span
	Phases []Span
}

// LastFailover reads the last takeover from a file of spans.
func LastFailover(path string) (Failover, error) {
	file, err := os.Open(path)
	if err != nil {
		return Failover{}, fmt.Errorf("read spans: %w", err)
	}
	defer file.Close()
	var all []Span
	for decoder := json.NewDecoder(file); ; {
		var s Span
		if err := decoder.Decode(&s); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return Failover{}, fmt.Errorf("read spans of %s: %w", path, err)
		}
		all = append(all, s)
	}
	var f Failover
	for _, s := range all {
		if s.Name == "election.failover" {
			f.Span = s
		}
	}
	if f.Name == "" {
		return f, fmt.Errorf("no election.failover in %s", path)
	}
	for _, s := range all {
		if s.Parent.SpanID == f.SpanContext.SpanID {
			f.Phases = append(f.Phases, s)
		}
	}
	return f, nil
}
