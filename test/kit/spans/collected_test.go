// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package spans

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

const request = `{"resourceSpans":[{"resource":{},"scopeSpans":[{"scope":{"name":"s"},"spans":[` +
	`{"traceId":"t1","spanId":"1","name":"election.failover","startTimeUnixNano":"1000000000","endTimeUnixNano":"3000000000"},` +
	`{"traceId":"t2","spanId":"3","parentSpanId":"2","name":"election.silence","startTimeUnixNano":"5000000000","endTimeUnixNano":"6000000000"},` +
	`{"traceId":"t2","spanId":"2","name":"election.failover","startTimeUnixNano":"5000000000","endTimeUnixNano":"7000000000",` +
	`"attributes":[{"key":"election.token","value":{"intValue":"42"}},{"key":"election.duration","value":{"doubleValue":2}}],` +
	`"links":[{"traceId":"t1","spanId":"1"}]},` +
	`{"traceId":"t3","spanId":"4","name":"reconcile","startTimeUnixNano":"5000000000","endTimeUnixNano":"7000000000"}]}]}]}` + "\n"

func TestWhatACollectorReceivedIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spans")
	if err := os.WriteFile(path, []byte(request+`{"resourceSpans":[{"half a li`), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(path string, want int) Failover {
		t.Helper()
		spans, err := Collected(path)
		if err != nil || len(spans) != want {
			t.Fatalf("%d spans and %v, want %d", len(spans), err, want)
		}
		all := FailoversOf(spans)
		if len(all) != 2 || all[1].Attribute("election.token") != "42" || all[1].Attribute("election.duration") != "2" ||
			all[1].Phase("election.silence").Duration() != time.Second || all[1].Links[0].SpanContext != all[0].SpanContext {
			t.Errorf("the takeovers are %+v", all)
		}
		return all[1]
	}
	last := check(path, 4)
	kept := filepath.Join(t.TempDir(), "kept")
	if err := KeepCollected(path, kept, last); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	var line bytes.Buffer
	if err := json.Compact(&line, text); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kept, line.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	check(kept, 3) // the work is in no trace of a takeover
}
