// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
)

// History holds the last terms of a lock as JSON: an array with an object for each term, the newest
// last, such as
//
//	[{"acquired":"2026-11-23T12:00:00Z","cause":"expired","holder":"op-a_1f","nobodyLedMs":15020,"token":4711,"zone":"za"}]
//
// What is not known is absent. A later version may add fields. Each acquisition adds a term; nothing
// else changes a History. It is text, so that a [Record] can be compared.
type History string

// MaxHistory is the longest History in bytes. A longer one counts as garbage.
const MaxHistory = 4096

// MostTerms is how many terms a History has at most. It has fewer if they do not fit.
const MostTerms = 20

// CauseOtherProgram is the cause of a term whose holder was not zonelect's and noted none, such
// as client-go's elector.
const CauseOtherProgram = "other-program"

// The longest texts in a History, in bytes. A longer one is cut, and ends with three dots.
const (
	mostHolder = 128
	mostZone   = 63
	mostCause  = 32
)

// TermNote is what a History says of one term. In its texts, an underscore stands for each space and
// for what cannot be printed, and what is too long is cut.
type TermNote struct {
	// Acquired is when the holder took the lock, by its wall clock, to the millisecond. It is
	// zero if that is not known.
	Acquired time.Time
	Holder   string // never empty
	Zone     string // empty if unknown
	// Token is zero if it is not known: the term may have ended before it was noted.
	Token uint64
	// Cause is how the lock had come free: a status.Cause, or CauseOtherProgram. It is empty if
	// that is not known.
	Cause string
	// NobodyLed is for how long nobody led before this term, as its holder saw it: from the last
	// renewal or the release of the holder before until the acquisition was sent, to the
	// millisecond. It is nil if the new holder did not see when that was.
	NobodyLed *time.Duration
}

// wireTerm is the JSON of a TermNote. Its fields are in the order of their names, as in a map's JSON.
type wireTerm struct {
	Acquired    time.Time `json:"acquired,omitzero"`
	Cause       string    `json:"cause,omitempty"`
	Holder      string    `json:"holder"`
	NobodyLedMs *uint64   `json:"nobodyLedMs,omitempty"`
	Token       uint64    `json:"token,omitempty"`
	Zone        string    `json:"zone,omitempty"`
}

// FormatHistory is the inverse of [History.Parse]. It drops the oldest terms until the rest
// fits.
func FormatHistory(all []TermNote) (h History) {
	for _, n := range all {
		h = h.With(n)
	}
	return h
}

// With returns the history with another term, without the oldest that do not fit any more. The
// other terms keep the fields that a later version gave them. What is no term is dropped.
func (h History) With(n TermNote) History {
	_, terms, _ := h.decode()
	return encoded(n.appendTo(terms))
}

// WithoutLast returns the history without its last term.
func (h History) WithoutLast() History {
	_, terms, _ := h.decode()
	return encoded(terms[:max(0, len(terms)-1)])
}

// Last returns the last term, and false if there is none.
func (h History) Last() (TermNote, bool) {
	all, _, _ := h.decode()
	if len(all) == 0 {
		return TermNote{}, false
	}
	return all[len(all)-1], true
}

// Parse returns the terms, the oldest first. It leaves out what makes no sense, and terms
// beyond the last MostTerms, and says so in the error. It believes the order of the terms.
func (h History) Parse() ([]TermNote, error) {
	all, _, err := h.decode()
	if more := len(all) - MostTerms; more > 0 {
		err = errors.Join(err, fmt.Errorf("it has %d terms, at most %d are read", len(all), MostTerms))
		all = all[more:]
	}
	return all, err
}

// decode returns the terms and the JSON of each. The error says what else the history has.
func (h History) decode() (all []TermNote, terms []json.RawMessage, err error) {
	switch {
	case len(h) > MaxHistory:
		return nil, nil, fmt.Errorf("it has %d bytes, at most %d are read", len(h), MaxHistory)
	case strings.TrimSpace(string(h)) == "":
		return nil, nil, nil
	}
	if json.Unmarshal([]byte(h), &terms) != nil || terms == nil {
		return nil, nil, fmt.Errorf("%.40q is no JSON array", h)
	}
	all, kept := make([]TermNote, 0, min(len(terms), MostTerms)), terms[:0]
	var errs []error
	for _, raw := range terms {
		if n := parseTerm(raw); n.Holder != "" {
			all, kept = append(all, n), append(kept, raw)
		} else {
			errs = append(errs, fmt.Errorf("%s is not a term", word(string(raw), 40)))
		}
	}
	return all, kept, errors.Join(errs...)
}

// encoded returns the last terms that a History can hold.
func encoded(terms []json.RawMessage) History {
	for terms = terms[max(0, len(terms)-MostTerms):]; len(terms) > 0; terms = terms[1:] {
		if text, err := json.Marshal(terms); err == nil && len(text) <= MaxHistory {
			return History(text)
		}
	}
	return ""
}

// appendTo adds the note's JSON to that of others, unless it has no holder.
func (n TermNote) appendTo(terms []json.RawMessage) []json.RawMessage {
	n = n.bounded()
	w := wireTerm{Acquired: n.Acquired, Cause: n.Cause, Holder: n.Holder, Token: n.Token, Zone: n.Zone}
	if n.NobodyLed != nil {
		milliseconds := uint64(n.NobodyLed.Milliseconds())
		w.NobodyLedMs = &milliseconds
	}
	raw, err := json.Marshal(w)
	if err != nil || n.Holder == "" {
		return terms
	}
	return append(terms, raw)
}

// parseTerm reverses appendTo. What is no term has no holder.
func parseTerm(raw json.RawMessage) TermNote {
	var w wireTerm
	if json.Unmarshal(raw, &w) != nil {
		return TermNote{}
	}
	n := TermNote{Acquired: w.Acquired, Holder: w.Holder, Zone: w.Zone, Token: w.Token, Cause: w.Cause}
	if w.NobodyLedMs != nil {
		nobodyLed := time.Duration(min(*w.NobodyLedMs, math.MaxInt64/uint64(time.Millisecond))) * time.Millisecond
		n.NobodyLed = &nobodyLed
	}
	return n.bounded()
}

// withToken returns the JSON of a term with a token, and otherwise as it is.
func withToken(term json.RawMessage, token uint64) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(term, &fields) == nil {
		fields["token"], _ = json.Marshal(token) // a number is always JSON
		if with, err := json.Marshal(fields); err == nil {
			return with
		}
	}
	return term
}

// bounded returns the note as a History can hold it.
func (n TermNote) bounded() TermNote {
	n.Holder, n.Zone, n.Cause = word(n.Holder, mostHolder), word(n.Zone, mostZone), word(n.Cause, mostCause)
	n.Acquired = toMillisecond(n.Acquired)
	if g := n.NobodyLed; g != nil && (*g < 0 || *g%time.Millisecond != 0) {
		bounded := max(0, *g).Truncate(time.Millisecond)
		n.NobodyLed = &bounded
	}
	return n
}

// word returns a text as one word of no more than most bytes, which a terminal prints.
func word(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, s)
	if len(s) <= most {
		return s
	}
	const dots = "..."
	return strings.ToValidUTF8(s[:most-len(dots)], "") + dots
}

// toMillisecond returns a time as a History has it; zero if it cannot have it.
func toMillisecond(t time.Time) time.Time {
	t = time.UnixMilli(t.UnixMilli()).UTC()
	if year := t.Year(); year < 1970 || year > 9999 {
		return time.Time{}
	}
	return t
}

// Noted returns the history with what the record itself says about the last term: its token, and
// its holder if that is not in the history. Such a holder is of another program, or of a version
// of zonelect that wrote no history.
func (r Record) Noted() History {
	all, terms, _ := r.History.decode()
	d, i := r.Details, len(all)-1
	known := i >= 0
	if known && all[i].Token == 0 && d.Token != 0 && d.Holder != "" && all[i].Holder == word(d.Holder, mostHolder) {
		terms[i] = withToken(terms[i], d.Token)
	}
	if r.Holder != "" && (!known || !r.isOf(all[i])) {
		now := TermNote{Acquired: r.AcquireTime, Holder: r.Holder, Cause: CauseOtherProgram}
		if d.Holder == r.Holder {
			now.Zone, now.Token, now.Cause = d.Zone, d.Token, ""
		}
		terms = now.appendTo(terms)
	}
	return encoded(terms)
}

// isOf reports whether a record with a holder is of a term.
func (r Record) isOf(n TermNote) bool {
	return n.Holder == word(r.Holder, mostHolder) && n.Acquired.Equal(toMillisecond(r.AcquireTime))
}
