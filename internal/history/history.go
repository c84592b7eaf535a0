// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package history reads and writes the history of a lock: its last terms, as [locks.Record] has them.
// It is JSON, an array with an object for each term, the newest last, such as
//
//	[{"acquired":"2026-11-23T12:00:00Z","cause":"expired","holder":"op-a_1f","nobodyLedMs":15020,"token":4711,"zone":"za"}]
//
// What is not known is absent. A later version may add fields, which an acquisition keeps. Each
// acquisition adds a term; nothing else changes a history: renewals, releases, handovers, notes (L8),
// steps of a migration and client-go's electors leave it as it is. It is pure: no I/O, no clock.
//
// The next acquisition adds what the last could not know, its token (S8), which readers take from
// zonelect.dev/token until then. A term that ended before its first renewal has none. If the replaced
// record is not of the last term here, its holder is of another program or of an earlier version, and
// the acquisition adds that term as well. If that holder has released the lock, only a candidate that
// saw it lead can add it. Of several such terms in a row the last is noted. If an acquisition landed
// but its answer was lost, the candidate acquires again, and only the last of these terms stays. A term
// that is reclaimed is a term of its own, because it has its own token. The Lease of a heartbeat has a
// history of its epochs.
package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"

	"github.com/zonelect/zonelect/locks"
)

// MaxBytes is how long a history may be. A longer one counts as garbage.
const MaxBytes = 4096

// MaxTerms is how many terms a history has at most. It has fewer if they do not fit.
const MaxTerms = 20

// CauseOtherProgram is the cause of a term whose holder was not zonelect's and noted none, such
// as client-go's elector.
const CauseOtherProgram = "other-program"

// The longest texts in a history, in bytes. A longer one is cut, and ends with three dots.
const (
	mostHolder = 128
	mostZone   = 63
	mostCause  = 32
)

// Term is what a history says of one term. In its texts, an underscore stands for each space and
// for what cannot be printed, and what is too long is cut.
type Term struct {
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

// wireTerm is the JSON of a Term. Its fields are in the order of their names, as in a map's JSON.
type wireTerm struct {
	Acquired    time.Time `json:"acquired,omitzero"`
	Cause       string    `json:"cause,omitempty"`
	Holder      string    `json:"holder"`
	NobodyLedMs *uint64   `json:"nobodyLedMs,omitempty"`
	Token       uint64    `json:"token,omitempty"`
	Zone        string    `json:"zone,omitempty"`
}

// Format is the inverse of [Parse]. It drops the oldest terms until the rest fits.
func Format(all []Term) (text string) {
	for _, n := range all {
		text = With(text, n)
	}
	return text
}

// With returns a history with another term, without the oldest that do not fit any more. The
// other terms keep the fields that a later version gave them. What is not a term is dropped.
func With(text string, n Term) string {
	_, terms, _ := decode(text)
	return encoded(n.appendTo(terms))
}

// WithoutLast returns a history without its last term.
func WithoutLast(text string) string {
	_, terms, _ := decode(text)
	return encoded(terms[:max(0, len(terms)-1)])
}

// Last returns the last term, and false if there is none.
func Last(text string) (Term, bool) {
	all, _, _ := decode(text)
	if len(all) == 0 {
		return Term{}, false
	}
	return all[len(all)-1], true
}

// Parse returns the terms, the oldest first. It leaves out what makes no sense, and terms
// beyond the last MaxTerms, and says so in the error. It believes the order of the terms.
func Parse(text string) ([]Term, error) {
	all, _, err := decode(text)
	if more := len(all) - MaxTerms; more > 0 {
		err = errors.Join(err, fmt.Errorf("it has %d terms, at most %d are read", len(all), MaxTerms))
		all = all[more:]
	}
	return all, err
}

// decode returns the terms and the JSON of each. The error says what else the history has.
func decode(text string) (all []Term, terms []json.RawMessage, err error) {
	switch {
	case len(text) > MaxBytes:
		return nil, nil, fmt.Errorf("it has %d bytes, at most %d are read", len(text), MaxBytes)
	case strings.TrimSpace(text) == "":
		return nil, nil, nil
	}
	if json.Unmarshal([]byte(text), &terms) != nil || terms == nil {
		return nil, nil, fmt.Errorf("%.40q is no JSON array", text)
	}
	all, kept := make([]Term, 0, min(len(terms), MaxTerms)), terms[:0]
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

// encoded returns the last terms that a history can hold.
func encoded(terms []json.RawMessage) string {
	for terms = terms[max(0, len(terms)-MaxTerms):]; len(terms) > 0; terms = terms[1:] {
		if text, err := json.Marshal(terms); err == nil && len(text) <= MaxBytes {
			return string(text)
		}
	}
	return ""
}

// appendTo adds the note's JSON to that of others, unless it has no holder.
func (n Term) appendTo(terms []json.RawMessage) []json.RawMessage {
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

// parseTerm reverses appendTo. What is not a term has no holder.
func parseTerm(raw json.RawMessage) Term {
	var w wireTerm
	if json.Unmarshal(raw, &w) != nil {
		return Term{}
	}
	n := Term{Acquired: w.Acquired, Holder: w.Holder, Zone: w.Zone, Token: w.Token, Cause: w.Cause}
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

// bounded returns the note as a history can hold it.
func (n Term) bounded() Term {
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

// toMillisecond returns a time as a history has it; zero if it cannot have it.
func toMillisecond(t time.Time) time.Time {
	t = time.UnixMilli(t.UnixMilli()).UTC()
	if year := t.Year(); year < 1970 || year > 9999 {
		return time.Time{}
	}
	return t
}

// Of returns the history of a record, with what the record itself says about the last term: its
// token, and its holder if that is not in the history. Such a holder is of another program, or of a
// version of zonelect that wrote no history.
func Of(r locks.Record) string {
	all, terms, _ := decode(r.History)
	d, i := r.Details, len(all)-1
	known := i >= 0
	if known && all[i].Token == 0 && d.Token != 0 && d.Holder != "" && all[i].Holder == word(d.Holder, mostHolder) {
		terms[i] = withToken(terms[i], d.Token)
	}
	if r.Holder != "" && (!known || !isOf(r, all[i])) {
		now := Term{Acquired: r.AcquireTime, Holder: r.Holder, Cause: CauseOtherProgram}
		if d.Holder == r.Holder {
			now.Zone, now.Token, now.Cause = d.Zone, d.Token, ""
		}
		terms = now.appendTo(terms)
	}
	return encoded(terms)
}

// isOf reports whether a record with a holder is of a term.
func isOf(r locks.Record, n Term) bool {
	return n.Holder == word(r.Holder, mostHolder) && n.Acquired.Equal(toMillisecond(r.AcquireTime))
}
