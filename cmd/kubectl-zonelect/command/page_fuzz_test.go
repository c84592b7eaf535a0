// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/internal/timeline"
)

var pageData = regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`)

// FuzzPage draws the history that any text on any Lease is, beside a candidate of any texts. There is
// always a page. It is as plain as others, has no script but its own, and shows each term whose time
// is known: in order, within its time, and no two at once.
func FuzzPage(f *testing.F) {
	const lease = `{"metadata":{"name":"op","annotations":{"zonelect.dev/holder":"a","zonelect.dev/token":"6"}},"spec":{"holderIdentity":"a","leaseDurationSeconds":15,"acquireTime":"2000-01-01T00:00:00.000000Z","renewTime":"2000-01-01T00:01:00.000000Z"}}`
	midnight := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Add([]byte(lease), `[{"acquired":"1999-12-31T23:00:00Z","cause":"absent","holder":"b","token":5,"zone":"zb"},{"acquired":"2000-01-01T00:00:00Z","cause":"expired","holder":"a","nobodyLedMs":15020,"token":6,"zone":"za"}]`, "a", "za", int64(61*time.Second))
	f.Add([]byte(lease), `[{"acquired":"2000-01-01T00:00:00Z","cause":"expired","holder":"b","nobodyLedMs":9223372036854,"token":5,"zone":"zb"},{"acquired":"1999-12-31T23:59:59Z","cause":"expired","holder":"b","nobodyLedMs":9223372036854,"token":6,"zone":"za"}]`, "</script><script>", "\u202e", int64(0))
	f.Add([]byte(`{"spec":{"holderIdentity":"x","acquireTime":"9999-12-31T23:59:59.000000Z"}}`), `[{"acquired":"0001-01-01T00:00:00Z","holder":"y","nobodyLedMs":1},{"acquired":"0001-01-01T00:00:01Z","holder":"y","nobodyLedMs":1000}]`, "y", "", int64(-1)<<62)
	f.Add([]byte(`{"spec":{"holderIdentity":"","renewTime":"9999-12-31T23:59:59.000000Z"}}`), `[{"acquired":"0000-01-01T00:00:00Z","holder":"y"},{"holder":"z","token":18446744073709551615},{"acquired":"2000-01-01T00:00:00Z","cause":"x","holder":"\u0000`+"\xff"+`","nobodyLedMs":0,"token":8,"zone":"za"}]`, "\x1b", "\n", int64(1))
	f.Add([]byte(lease), "["+strings.Repeat(`{"acquired":"2000-01-01T00:00:00Z","cause":"expired","holder":"b","nobodyLedMs":9223372036854,"token":5,"zone":"zb"},`, 19)+`{"acquired":"2000-01-01T00:00:00Z","cause":"expired","holder":"b"}]`, "b", "zb", int64(0)) // before the first year
	f.Fuzz(func(t *testing.T, b []byte, noted, identity, zone string, after int64) {
		e := inspect.Election{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "op"}, Lease: &coordinationv1.Lease{}}
		if json.Unmarshal(b, e.Lease) != nil {
			t.Skip("no Lease")
		}
		if e.Lease.Annotations == nil {
			e.Lease.Annotations = map[string]string{}
		}
		e.Lease.Annotations[record.AnnotationHistory] = noted
		e.Candidates = []inspect.Candidate{{Identity: identity, Zone: zone}, {Identity: identity}, {Zone: zone}}
		now := midnight.Add(time.Duration(after))
		history := e.History(now)
		var page bytes.Buffer
		if err := timeline.Render(&page, drawn(e, history, now)); err != nil {
			t.Fatal(err)
		}
		if fault := unplain(strings.NewReplacer("\n", "", "\t", "").Replace(page.String())); fault != "" {
			t.Errorf("a page: %s", fault)
		}
		if n := strings.Count(page.String(), "<script"); n != 2 {
			t.Errorf("it has %d scripts", n)
		}
		shown(t, history, page.String())
	})
}

// shown compares the terms of a page with those of a history.
func shown(t *testing.T, history inspect.History, page string) {
	t.Helper()
	type span struct{ From, To float64 }
	var d struct {
		Begin    string
		End      float64
		Terms    []span
		Overlaps []any

		Failovers []struct{ Phases []span }
	}
	data := pageData.FindStringSubmatch(page)
	if len(data) != 2 || json.Unmarshal([]byte(data[1]), &d) != nil {
		t.Fatalf("its data are %q", data)
	}
	if _, err := time.Parse(time.RFC3339, d.Begin); err != nil {
		t.Errorf("no browser reads its beginning: %v", err)
	}
	known := 0
	for _, term := range history.Terms {
		if term.Since != nil {
			known++
		}
	}
	if len(d.Terms) != known || len(d.Overlaps) > 0 {
		t.Errorf("%d terms are shown, %d are known, %d overlap", len(d.Terms), known, len(d.Overlaps))
	}
	spans := d.Terms
	for i := range spans {
		if i > 0 && spans[i].From < spans[i-1].To {
			t.Errorf("a term begins at %v, before the last ended at %v", spans[i].From, spans[i-1].To)
		}
	}
	for _, f := range d.Failovers {
		spans = append(spans, f.Phases...)
	}
	for _, s := range spans {
		if s.From < 0 || s.To < s.From || s.To > d.End {
			t.Errorf("%+v is not a part of 0 to %v", s, d.End)
		}
	}
}
