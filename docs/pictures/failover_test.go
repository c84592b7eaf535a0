// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package pictures_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// received is what a collector received of a power loss. To take another one:
//
//	cd test && ZONELECT_FAILOVERS=1 go test -run /power_loss ./suites/telemetry/ -keep ../../../docs/pictures/failover.json
//
//go:embed failover.json
var received []byte

// span is a span in the JSON of OTLP.
type span struct {
	TraceID, SpanID, ParentSpanID, Name string
	StartTimeUnixNano, EndTimeUnixNano  int64 `json:",string"`
	Attributes                          []struct {
		Key   string
		Value map[string]any // one entry, named after the value's type
	}
	Links []struct{ TraceID, SpanID string }
}

func (s span) took() time.Duration { return time.Duration(s.EndTimeUnixNano - s.StartTimeUnixNano) }

// says returns an attribute's value.
func (s span) says(key string) string {
	for _, a := range s.Attributes {
		for _, value := range a.Value {
			if a.Key == key {
				return fmt.Sprint(value)
			}
		}
	}
	return ""
}

// receivedSpans returns the spans by name: those of the failover, and the span that it links
// to under the name "link".
func receivedSpans() map[string]span {
	var file struct {
		ResourceSpans []struct{ ScopeSpans []struct{ Spans []span } }
	}
	if err := json.Unmarshal(received, &file); err != nil {
		panic(err) // the file is part of the repository
	}
	var all []span
	for _, r := range file.ResourceSpans {
		for _, scope := range r.ScopeSpans {
			all = append(all, scope.Spans...)
		}
	}
	byName := map[string]span{}
	for _, s := range all {
		if s.Name == "election.failover" && s.StartTimeUnixNano > byName[s.Name].StartTimeUnixNano {
			byName[s.Name] = s
		}
	}
	whole := byName["election.failover"]
	for _, s := range all {
		switch {
		case s.SpanID == whole.Links[0].SpanID:
			byName["link"] = s
		case s.TraceID == whole.TraceID:
			byName[s.Name] = s
		}
	}
	return byName
}

// failover is the trace of a power loss. The time until the lease ends is drawn shorter than
// the milliseconds after it.
func failover() *picture {
	const left, free, right, top, row = 230, 470, 790, 66, 34
	spans := receivedSpans()
	whole := spans["election.failover"]
	silence := spans["election.silence"].took()
	after := whole.took() - silence
	at := func(ns int64) float64 {
		since := time.Duration(ns - whole.StartTimeUnixNano)
		if since <= silence {
			return round(left + (free-left)*since.Seconds()/silence.Seconds())
		}
		return round(free + (right-free)*(since-silence).Seconds()/after.Seconds())
	}
	p := &picture{name: "failover", title: "A zone loses its power: the trace of the failover, as a collector received it", width: 960, height: 416}
	p.heading(20, 30, 16, "start", "A zone loses its power: the trace of the failover, as a collector received it")
	for i, r := range []struct{ name, class, indent string }{
		{"election.failover", "plain", ""}, {"election.silence", "wait", "  "}, {"election.delay", "calm", "  "}, {"election.acquire", "good", "  "},
		{"election.attempt", "plain", "    "}, {"election.adopt", "calm", "  "}, {"election.work_start", "good", "  "},
	} {
		s, y := spans[r.name], top+row*float64(i)
		p.text(20+7*float64(len(r.indent)), y+17, 13, "start", r.name)
		x := at(s.StartTimeUnixNano)
		p.bar(r.class, x, y, max(2, round(at(s.EndTimeUnixNano)-x)), 24)
		p.text(940, y+17, 12, "end", length(s.took()))
	}
	bottom := float64(top + 7*row)
	p.rule(free, top-8, free, bottom+4, "4 4")
	p.rule(left, bottom-4, left, bottom+4, "")
	p.rule(right, bottom-4, right, bottom+4, "")
	p.rule(left, bottom, free-40, bottom, "")
	p.rule(free-30, bottom, right, bottom, "")
	for _, x := range []float64{free - 42, free - 32} { // the axis has two scales
		p.rule(x, bottom+7, x+6, bottom-7, "")
	}
	p.note(left, bottom+20, 12, "middle", "the last renewal that was seen")
	p.note(free, bottom+20, 12, "middle", "the lease has run out")
	p.note(right, bottom+20, 12, "middle", "the work runs")
	p.note((left+free)/2, bottom+40, 12, "middle", fmt.Sprintf("%.1f s", silence.Seconds()))
	p.note((free+right)/2, bottom+40, 12, "middle", length(after)+", drawn larger")
	p.note(20, bottom+70, 12, "start", fmt.Sprintf("election.cause %s, election.token %s, from zone %s to %s",
		whole.says("election.cause"), whole.says("election.token"), whole.says("election.previous.zone"), whole.says("election.holder.zone")))
	p.note(20, bottom+90, 12, "start", fmt.Sprintf("The link leads to the span %s of trace %s...: how %s had begun to lead, with token %s.",
		spans["link"].Name, spans["link"].TraceID[:8], podOf(whole.says("election.previous.holder")), spans["link"].says("election.token")))
	return p
}

// podOf is the pod in an identity.
func podOf(identity string) string {
	pod, _, _ := strings.Cut(identity, "_")
	return pod
}

func length(d time.Duration) string {
	if d >= time.Second {
		return fmt.Sprintf("%.4f s", d.Seconds())
	}
	return fmt.Sprintf("%.2f ms", d.Seconds()*1000)
}

// round keeps the file the same wherever it is made.
func round(x float64) float64 { return float64(int(x*10+0.5)) / 10 }
