// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package spans

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"
)

// collected is a line of what a collector received, in the JSON of OTLP.
type collected struct {
	ResourceSpans []struct {
		ScopeSpans []struct{ Spans []otlpSpan }
	}
}

type otlpSpan struct {
	TraceID, SpanID, ParentSpanID      string
	Name                               string
	StartTimeUnixNano, EndTimeUnixNano string
	Attributes                         []otlpAttribute
	Links                              []struct{ TraceID, SpanID string }
}

type otlpAttribute struct {
	Key   string
	Value map[string]any // one entry, named after the value's type
}

// longestLine of the file of a collector is one request with spans.
const longestLine = 16 << 20

// Collected reads what test/programs/collector received. A line that is not written to its
// end yet is left out.
func Collected(path string) ([]Span, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read what the collector received: %w", err)
	}
	defer file.Close()
	var all []Span
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		var c collected
		if json.Unmarshal(lines.Bytes(), &c) != nil {
			break
		}
		for _, r := range c.ResourceSpans {
			for _, scope := range r.ScopeSpans {
				for _, s := range scope.Spans {
					all = append(all, s.span())
				}
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read what the collector received: %w", err)
	}
	return all, nil
}

// KeepCollected copies from what a collector received the spans of a takeover, and of the one
// that it links to, in the same form but on many lines.
func KeepCollected(path, to string, f Failover) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read what the collector received: %w", err)
	}
	traces := map[string]bool{f.SpanContext.TraceID: true}
	for _, l := range f.Links {
		traces[l.SpanContext.TraceID] = true
	}
	var kept []any
	for line := range bytes.Lines(raw) {
		var request map[string][]map[string]any
		if json.Unmarshal(line, &request) != nil {
			break
		}
		for _, r := range request["resourceSpans"] {
			if spans := r["scopeSpans"].([]any); keepTraces(spans, traces) {
				kept = append(kept, r)
			}
		}
	}
	text, err := json.MarshalIndent(map[string]any{"resourceSpans": kept}, "", " ")
	if err == nil {
		err = os.WriteFile(to, append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep what the collector received: %w", err)
	}
	return nil
}

// keepTraces removes the spans of other traces, and reports whether any is left.
func keepTraces(scopes []any, traces map[string]bool) (left bool) {
	for _, x := range scopes {
		scope := x.(map[string]any)
		spans := slices.DeleteFunc(scope["spans"].([]any), func(s any) bool { return !traces[s.(map[string]any)["traceId"].(string)] })
		scope["spans"], left = spans, left || len(spans) > 0
	}
	return left
}

// span returns s in the form in which the candidate program writes spans.
func (s otlpSpan) span() Span {
	to := Span{Name: s.Name, StartTime: unixNano(s.StartTimeUnixNano), EndTime: unixNano(s.EndTimeUnixNano)}
	to.SpanContext.TraceID, to.SpanContext.SpanID, to.Parent.SpanID = s.TraceID, s.SpanID, s.ParentSpanID
	for _, a := range s.Attributes {
		for _, value := range a.Value {
			attribute := Attribute{Key: a.Key}
			attribute.Value.Value = value
			to.Attributes = append(to.Attributes, attribute)
		}
	}
	for _, l := range s.Links {
		link := Link{}
		link.SpanContext.TraceID, link.SpanContext.SpanID = l.TraceID, l.SpanID
		to.Links = append(to.Links, link)
	}
	return to
}

// unixNano reads a time of OTLP's JSON. It is zero if there is none.
func unixNano(text string) time.Time {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(0, n)
}
