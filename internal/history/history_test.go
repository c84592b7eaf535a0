// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/internal/history"
	"github.com/zonelect/zonelect/locks"
)

// noon is when the first term of a history begins.
var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func lasting(d time.Duration) *time.Duration { return &d }

// note is the i-th term of a history, as a pod of a Deployment would write it.
func note(i int) history.Term {
	return history.Term{
		Acquired: noon.Add(time.Duration(i) * time.Hour), Holder: fmt.Sprintf("metal3-controller-7c9d8b6f5d-x2x%02d_9f8e7d6c", i%100),
		Zone: "eu-central-1a", Token: 412345678 + uint64(i), Cause: "expired", NobodyLed: lasting(17_250 * time.Millisecond),
	}
}

func parsed(t *testing.T, h string) []history.Term {
	t.Helper()
	all, err := history.Parse(h)
	if err != nil {
		t.Errorf("%q: %v", h, err)
	}
	return all
}

func TestAHistoryIsReadAsItWasWritten(t *testing.T) {
	zero := time.Duration(0)
	for text, want := range map[string][]history.Term{
		"": nil,
		`[{"acquired":"2026-11-23T12:00:00Z","cause":"died","holder":"a","nobodyLedMs":2100,"token":7,"zone":"za"}]`: {
			{Acquired: noon, Holder: "a", Zone: "za", Token: 7, Cause: "died", NobodyLed: lasting(2100 * time.Millisecond)},
		},
		`[{"holder":"a"},{"cause":"released","holder":"b","nobodyLedMs":0}]`: {{Holder: "a"}, {Holder: "b", Cause: "released", NobodyLed: &zero}},
	} {
		if got := parsed(t, text); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v, want %+v", text, got, want)
		}
		if got := history.Format(want); got != text {
			t.Errorf("written as %s, want %s", got, text)
		}
	}
}

// TestATextInAHistoryIsAWord, whatever a holder calls itself.
func TestATextInAHistoryIsAWord(t *testing.T) {
	for text, want := range map[string]string{"a b\nc\x00\u00a0d": "a_b_c__d", `"}],[{`: `"}],[{`, "<&>": "<&>", "\u00e4-1_x": "\u00e4-1_x", "\x1b[2J": "_[2J"} {
		h := history.With("", history.Term{Holder: text, Zone: text})
		if all := parsed(t, h); len(all) != 1 || all[0].Holder != want || all[0].Zone != want {
			t.Errorf("%q is noted as %+v", text, all)
		}
		if r := (locks.Record{Holder: text, History: h}); history.Of(r) != h {
			t.Errorf("%q is noted twice: %s", text, history.Of(r))
		}
	}
}

// TestAHistoryKeepsTheLastTwentyTerms of any number.
func TestAHistoryKeepsTheLastTwentyTerms(t *testing.T) {
	var h string
	var all []history.Term
	for i := range 50 {
		h, all = history.With(h, note(i)), append(all, note(i))
		if got, want := parsed(t, h), all[max(0, len(all)-history.MaxTerms):]; !reflect.DeepEqual(got, want) {
			t.Fatalf("after %d terms: %+v", i+1, got)
		}
	}
	if again := history.Format(all); again != h {
		t.Errorf("one by one:\n%s\nat once:\n%s", h, again)
	}
	t.Logf("%d terms of pods are %d bytes, %d a term", history.MaxTerms, len(h), len(h)/history.MaxTerms)
}

func TestAHistoryNeverHasMoreBytesThanItMay(t *testing.T) {
	for what, text := range map[string]string{
		"long": strings.Repeat("x", 2000), "in umlauts": strings.Repeat("\u00e4", 1000), "of control characters": strings.Repeat("\x01", 1000), "not in UTF-8": strings.Repeat("x\xff", 1000),
	} {
		var h string
		for range 30 {
			h = history.With(h, history.Term{Acquired: noon, Holder: text, Zone: text, Cause: text, Token: 1 << 60})
			if len(h) > history.MaxBytes {
				t.Fatalf("%s: %d bytes", what, len(h))
			}
		}
		if all := parsed(t, h); len(all) < 2 || !strings.HasSuffix(all[0].Holder, "...") || len(all[0].Holder) > 128 {
			t.Errorf("%s: %d terms, such as %+v", what, len(all), all)
		}
		last, _ := history.Last(h)
		r := locks.Record{Holder: text, AcquireTime: noon.Add(1234 * time.Nanosecond), History: h}
		if got := history.Of(r); got != h {
			t.Errorf("%s: the holder is not found in its history, of which the last term is %+v:\n%s", what, last, got)
		}
	}
}

// TestWhateverIsInAHistoryATermIsAdded: garbage costs no acquisition, and at most what was there.
func TestWhateverIsInAHistoryATermIsAdded(t *testing.T) {
	var many []string
	for i := range 40 {
		many = append(many, strings.Trim(history.Format([]history.Term{note(i)}), "[]"))
	}
	valid := many[0]
	of := func(terms ...string) string { return "[" + strings.Join(terms, ",") + "]" }
	for what, tc := range map[string]struct {
		text string
		kept int // terms
	}{
		"nothing":                      {"", 0},
		"a word":                       {"garbage", 0},
		"an object":                    {`{"holder": "a", "time": 5}`, 0},
		"half of it":                   {of(valid, valid)[:len(valid)+20], 0},
		"more after it":                {of(valid) + of(valid), 0},
		"null":                         {"null", 0},
		"other space":                  {"\r\n [ " + strings.ReplaceAll(valid, `,"`, "\n, \"") + "\n]\t", 1},
		"no terms":                     {of("null", "5", `"a"`, "[]", "{}", "true", valid), 1},
		"arrays in arrays":             {strings.Repeat("[", 2000) + strings.Repeat("]", 2000), 0},
		"arrays in a term":             {of(`{"holder":"a","new":`+strings.Repeat("[", 1000)+strings.Repeat("]", 1000)+"}", valid), 2},
		"a term without a holder":      {of(`{"acquired":"2026-11-23T12:00:00Z"}`, `{"holder":""}`, `{"holder":null}`, valid), 1},
		"a time that there is not":     {of(`{"acquired":"2026-13-23T12:00:00Z","holder":"a"}`, valid), 1},
		"a token that is none":         {of(`{"holder":"a","token":-1}`, `{"holder":"a","token":1.5}`, `{"holder":"a","token":"7"}`, valid), 1},
		"a token that is too large":    {of(`{"holder":"a","token":18446744073709551616}`, valid), 1},
		"a time without a leader, < 0": {of(`{"holder":"a","nobodyLedMs":-5}`, valid), 1},
		"a holder that is not a text":  {of(`{"holder":7}`, valid), 1},
		"fields of a later version":    {of(`{"holder":"a","new":{"more":[1]}}`, valid), 2},
		"too long":                     {of(strings.Repeat(valid+",", 100) + valid), 0},
		"one term that is too long":    {of(`{"holder":"` + strings.Repeat("x", history.MaxBytes) + `"}`), 0},
		"a long term before":           {of(`{"holder":"`+strings.Repeat("x", history.MaxBytes-300)+`"}`, valid), 1},
		"a term that grows":            {of(`{"holder":"a","new":"`+strings.Repeat("<", history.MaxBytes-300)+`"}`, valid), 1},
		"too many terms":               {of(many[:21]...), 19},
		"terms in another order":       {of(many[5], many[2]), 2},
		"the same term twice":          {of(valid, valid), 2},
	} {
		all, err := history.Parse(tc.text)
		if err == nil && tc.kept == 0 && tc.text != "" {
			t.Errorf("%s: read as %+v without an error", what, all)
		}
		next := history.With(tc.text, note(99))
		got, _ := history.Parse(next)
		if len(got) != tc.kept+1 || !reflect.DeepEqual(got[len(got)-1], note(99)) || len(next) > history.MaxBytes {
			t.Errorf("%s: %d terms in %d bytes, want %d:\n%s", what, len(got), len(next), tc.kept+1, next)
		}
	}
}

// TestALaterVersionsFieldsStayAsTheyAre: who does not know a field does not remove it.
func TestALaterVersionsFieldsStayAsTheyAre(t *testing.T) {
	const term = `{"holder":"a","new":[1,{"x":2}]}`
	if got := history.With("["+term+"]", note(1)); !strings.HasPrefix(got, "["+term+",") {
		t.Errorf("it is %s", got)
	}
	if got := history.WithoutLast(history.Format([]history.Term{note(0), note(1)})); got != history.Format([]history.Term{note(0)}) {
		t.Errorf("without its last term it is %s", got)
	}
	for before, want := range map[string]string{
		"[" + term + "]":   `[{"holder":"a","new":[1,{"x":2}],"token":5}]`,
		`[{"holder":"a"}]`: `[{"holder":"a","token":5}]`,
	} {
		r := locks.Record{History: before, Details: locks.Details{Holder: "a", Token: 5}}
		if got := history.Of(r); got != want {
			t.Errorf("once its token is known it is %s, want %s", got, want)
		}
	}
}

// TestARecordSaysWhatItsHistoryCannot: the token of the last term, and a holder of another
// program.
func TestARecordSaysWhatItsHistoryCannot(t *testing.T) {
	begun := note(1)
	begun.Token = 0
	a := locks.Record{
		Holder: begun.Holder, AcquireTime: begun.Acquired.Add(999 * time.Microsecond), History: history.Format([]history.Term{note(0), begun}),
		Details: locks.Details{Holder: begun.Holder, Token: note(1).Token, Zone: begun.Zone},
	}
	other := history.Term{Acquired: noon.Add(3 * time.Hour), Holder: "client-go", Cause: history.CauseOtherProgram}
	for what, tc := range map[string]struct {
		change func(*locks.Record)
		want   []history.Term
	}{
		"held":                    {func(*locks.Record) {}, []history.Term{note(0), note(1)}},
		"held without a token":    {func(r *locks.Record) { r.Details.Token = 0 }, []history.Term{note(0), begun}},
		"released":                {func(r *locks.Record) { r.Holder, r.AcquireTime = "", noon.Add(2*time.Hour) }, []history.Term{note(0), note(1)}},
		"with details of another": {func(r *locks.Record) { r.Holder, r.Details.Holder = "", "x" }, []history.Term{note(0), begun}},
		"with a token that was noted": {func(r *locks.Record) {
			r.History = history.Format([]history.Term{note(0), note(1)})
			r.Details.Token = 5
		}, []history.Term{note(0), note(1)}},
		"taken by client-go":            {func(r *locks.Record) { r.Holder, r.AcquireTime = other.Holder, other.Acquired }, []history.Term{note(0), note(1), other}},
		"taken by an earlier version":   {func(r *locks.Record) { r.AcquireTime = other.Acquired }, []history.Term{note(0), note(1), {Acquired: other.Acquired, Holder: begun.Holder, Zone: begun.Zone, Token: note(1).Token}}},
		"without a history":             {func(r *locks.Record) { r.History = "" }, []history.Term{{Acquired: begun.Acquired, Holder: begun.Holder, Zone: begun.Zone, Token: note(1).Token}}},
		"without a history or a holder": {func(r *locks.Record) { r.History, r.Holder = "", "" }, nil},
		"without a time":                {func(r *locks.Record) { r.History, r.Holder, r.AcquireTime = "", "x", time.Time{} }, []history.Term{{Holder: "x", Cause: history.CauseOtherProgram}}},
	} {
		r := a
		tc.change(&r)
		got := parsed(t, history.Of(r))
		if what == "taken by an earlier version" { // its token is taken for that of the term before: both are of one identity, against S9
			got[1].Token = note(1).Token
		}
		if !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %+v\nwant %+v", what, got, tc.want)
		}
		r.History = history.Of(r)
		if again := history.Of(r); again != r.History {
			t.Errorf("%s: the second time it is\n%s\nafter\n%s", what, again, r.History)
		}
	}
}

// BenchmarkTheHistoryOfATakeover is what an acquisition computes for a full history.
func BenchmarkTheHistoryOfATakeover(b *testing.B) {
	var h string
	for i := range history.MaxTerms {
		h = history.With(h, note(i))
	}
	last, _ := history.Last(h)
	r := locks.Record{Holder: last.Holder, AcquireTime: last.Acquired, History: h}
	b.ReportAllocs()
	for b.Loop() {
		history.With(history.Of(r), note(99))
	}
}

// FuzzHistory reads and continues any history. What is read is the same after it was written,
// and a term more always fits.
func FuzzHistory(f *testing.F) {
	f.Add("", "a", "", int64(0), uint64(1))
	f.Add(history.Format([]history.Term{note(0), note(1), note(2)}), note(2).Holder, "za", note(2).Acquired.UnixMilli(), uint64(5))
	f.Add(`["garbage",{"holder":"a","Token":0,"to\u212Aen":0}]`, "\xff\x00", strings.Repeat("z", 99), int64(-1), uint64(0))
	f.Add(`[{"acquired":"9999-12-31T23:59:59.999-23:59","holder":"a","nobodyLedMs":9223372036854775807,"token":18446744073709551615,"zone":"za"}]`, strings.Repeat("\x01", 200), "", int64(1)<<50, uint64(1))
	f.Add("["+strings.Repeat(`{"holder":"`+strings.Repeat("<", 180)+`"},`, 19)+`{"holder":"b","new":{"x":[]}}]`, "b", "", int64(1), uint64(1))
	f.Fuzz(func(t *testing.T, text, holder, zone string, milli int64, token uint64) {
		all, _ := history.Parse(text)
		if again, err := history.Parse(history.Format(all)); len(all) > 0 && (err != nil || !isEnd(again, all)) {
			t.Errorf("read %+v\nthen %+v, %v", all, again, err)
		}
		r := locks.Record{Holder: holder, AcquireTime: time.UnixMilli(milli), History: text, Details: locks.Details{Holder: holder, Token: token, Zone: zone}}
		noted := history.Of(r)
		if len(noted) > history.MaxBytes {
			t.Fatalf("%d bytes", len(noted))
		}
		if r.History = noted; history.Of(r) != noted {
			t.Errorf("%q is noted again, as %q", noted, history.Of(r))
		}
		more := history.With(noted, history.Term{Acquired: r.AcquireTime, Holder: holder, Zone: zone, Cause: zone, Token: token, NobodyLed: lasting(time.Duration(milli))})
		got, _ := history.Parse(more)
		if len(more) > history.MaxBytes || len(got) > history.MaxTerms {
			t.Errorf("%d terms in %d bytes", len(got), len(more))
		}
		if last, known := history.Last(more); holder != "" && (!known || last.Token != token || len(got) == 0 || !reflect.DeepEqual(got[len(got)-1], last)) {
			t.Errorf("the last is %+v of %+v", last, got)
		}
	})
}

// isEnd reports whether the terms are the last of others.
func isEnd(terms, of []history.Term) bool {
	return len(terms) > 0 && len(terms) <= len(of) && slices.EqualFunc(terms, of[len(of)-len(terms):], func(a, b history.Term) bool { return reflect.DeepEqual(a, b) })
}
