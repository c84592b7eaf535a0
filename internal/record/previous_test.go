// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/locks"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 5_000_000, time.UTC)

func TestWhoLedBeforeIsReadAsItWasWritten(t *testing.T) {
	long := strings.Repeat("<", maxPrevious)
	all := locks.Previous{Holder: "a_1", Until: noon, Cause: "expired"}
	for name, c := range map[string]struct{ previous, want locks.Previous }{
		"nothing":         {},
		"all":             {all, all},
		"an unseen end":   {locks.Previous{Holder: "a_1", Cause: "released"}, locks.Previous{Holder: "a_1", Cause: "released"}},
		"no holder":       {locks.Previous{Cause: "absent"}, locks.Previous{Cause: "absent"}},
		"no cause":        {locks.Previous{Holder: "a_1"}, locks.Previous{}},
		"a long identity": {locks.Previous{Holder: long, Until: noon, Cause: "expired"}, locks.Previous{}},
		"a long cause":    {locks.Previous{Holder: "a_1", Cause: long}, locks.Previous{}},
	} {
		base := annotated(AnnotationPrevious, `{"holder":"x","cause":"died"}`, "other", "kept")
		r := held()
		r.Previous = c.previous
		lease := Write(base, r)
		if got := Read(lease).Previous; got != c.want {
			t.Errorf("%s: read %+v, want %+v", name, got, c.want)
		}
		text, there := lease.Annotations[AnnotationPrevious]
		if len(text) > maxPrevious || there != (c.want.Cause != "") || lease.Annotations["other"] != "kept" {
			t.Errorf("%s: the annotations are %q", name, lease.Annotations)
		}
	}
}

// FuzzPrevious: anybody may write the annotation. What is read from it is bounded, and is not written
// again in another sense.
func FuzzPrevious(f *testing.F) {
	for _, text := range []string{
		"", "null", "[]", `"expired"`, "{", `{"cause":1}`, `{"holder":"a_1"}`, `{"cause":"expired","until":"yesterday"}`,
		`{"holder":"a_1","until":"2026-11-23T12:00:00.005Z","cause":"expired"}`, `{"cause":"x","until":"2026-11-23T12:00:00+01:00","new":[{}]}`,
		`{"cause":"x","until":"9999-12-31T23:59:59-23:59"}`, `{"cause":"x","until":"0001-01-01T00:00:00+23:59"}`,
		"{\"cause\":\"\x1b\xff\"}", `{"cause":"` + strings.Repeat("<", 400) + `"}`, `{"cause":"` + strings.Repeat("x", 1<<20) + `"}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := parsePrevious(text)
		if len(text) > maxPrevious && p != (locks.Previous{}) {
			t.Errorf("%d bytes are read as %+v", len(text), p)
		}
		written := formatPrevious(p)
		again := parsePrevious(written)
		if known := again.Cause != ""; len(written) > maxPrevious || known && (again.Cause != p.Cause || again.Until != p.Until) {
			t.Errorf("%q is read as %+v, written as %q, and read as %+v", text, p, written, again)
		}
	})
}
