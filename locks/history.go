// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// History is the text form of the last terms of a lock: a line for each term, the newest last,
// such as
//
//	2026-11-23T12:00:00.000Z op-a_1f za 4711 expired 15020
//
// with the time of the acquisition, the holder, its zone, the token, the cause, and for how many
// milliseconds nobody had led. What is not known is "-". A later version may add fields at the
// end. Each acquisition adds a line; nothing else changes a History.
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

// TermNote is what a History says of one term. In its texts, other characters stand for those
// that a line cannot hold, and what is too long is cut.
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

// FormatHistory is the inverse of [History.Parse]. It drops the oldest terms until the rest
// fits.
func FormatHistory(all []TermNote) History {
	var lines []string
	for _, n := range all {
		lines = n.appendTo(lines)
	}
	return joined(lines)
}

// With returns the history with another term, without the oldest that do not fit any more. The
// lines of the other terms stay as they are, whatever a later version added to them. All else is
// dropped.
func (h History) With(n TermNote) History {
	lines, last, known := h.cutLast()
	if known {
		lines = append(lines, last.line)
	}
	return joined(n.appendTo(lines))
}

// Last returns the last term, and false if there is none.
func (h History) Last() (TermNote, bool) {
	_, last, known := h.cutLast()
	return last.TermNote, known
}

// Parse returns the terms, the oldest first. It leaves out lines that make no sense, and terms
// beyond the last MostTerms, and says so in the error. It believes the order of the lines.
func (h History) Parse() ([]TermNote, error) {
	if len(h) > MaxHistory {
		return nil, fmt.Errorf("it has %d bytes, at most %d are read", len(h), MaxHistory)
	}
	var all []TermNote
	var errs []error
	for line := range strings.SplitSeq(string(h), "\n") {
		n, err := parseTerm(line)
		switch {
		case err == nil:
			all = append(all, n)
		case strings.TrimSpace(line) != "":
			errs = append(errs, fmt.Errorf("%.40q is not a term: %w", line, err))
		}
	}
	if more := len(all) - MostTerms; more > 0 {
		errs = append(errs, fmt.Errorf("it has %d terms, at most %d are read", len(all), MostTerms))
		all = all[more:]
	}
	return all, errors.Join(errs...)
}

// notedTerm is a term, and the line that notes it.
type notedTerm struct {
	TermNote
	line string
}

// withToken returns the line with a token, and otherwise as it is.
func (t notedTerm) withToken(n uint64) string {
	fields := strings.Fields(t.line)
	for len(fields) <= 3 {
		fields = append(fields, unknown)
	}
	fields[3] = strconv.FormatUint(n, 10)
	return strings.Join(fields, " ")
}

// cutLast returns the last term, and the lines of those before it.
func (h History) cutLast() (before []string, last notedTerm, known bool) {
	if len(h) > MaxHistory {
		return nil, notedTerm{}, false
	}
	before = make([]string, 0, MostTerms+2)
	for line := range strings.SplitSeq(string(h), "\n") {
		n, err := parseTerm(line)
		if err != nil {
			continue
		}
		if known {
			before = append(before, last.line)
		}
		last, known = notedTerm{n, strings.TrimSpace(line)}, true
	}
	return before, last, known
}

// joined returns the last lines that a History can hold.
func joined(lines []string) History {
	first, size := len(lines), -1
	for first > 0 && len(lines)-first < MostTerms && size+1+len(lines[first-1]) <= MaxHistory {
		first--
		size += 1 + len(lines[first])
	}
	return History(strings.Join(lines[first:], "\n"))
}

// wireTime is the form of times in a History.
const wireTime = "2006-01-02T15:04:05.000Z"

// unknown stands in a line for what is not known.
const unknown = "-"

// appendTo adds the note's line to others, unless it has no holder.
func (n TermNote) appendTo(lines []string) []string {
	n = n.bounded()
	if n.Holder == "" {
		return lines
	}
	fields := [...]string{unknown, n.Holder, n.Zone, unknown, n.Cause, unknown}
	if !n.Acquired.IsZero() {
		fields[0] = n.Acquired.Format(wireTime)
	}
	if n.Token != 0 {
		fields[3] = strconv.FormatUint(n.Token, 10)
	}
	if n.NobodyLed != nil {
		fields[5] = strconv.FormatInt(n.NobodyLed.Milliseconds(), 10)
	}
	for i := range fields {
		if fields[i] == "" {
			fields[i] = unknown
		}
	}
	return append(lines, strings.Join(fields[:], " "))
}

// parseTerm reverses appendTo. What a line lacks at its end is not known.
func parseTerm(line string) (n TermNote, err error) {
	var fields [6]string
	i := 0
	for field := range strings.FieldsSeq(line) {
		if i == len(fields) {
			break // of a later version
		}
		if fields[i] = field; field == unknown {
			fields[i] = ""
		}
		i++
	}
	if n.Holder = fields[1]; n.Holder == "" {
		return TermNote{}, errors.New("it has no holder")
	}
	if fields[0] != "" {
		n.Acquired, err = time.Parse(time.RFC3339, fields[0])
	}
	if fields[3] != "" && err == nil {
		n.Token, err = strconv.ParseUint(fields[3], 10, 64)
	}
	if fields[5] != "" && err == nil {
		var milliseconds uint64
		milliseconds, err = strconv.ParseUint(fields[5], 10, 64)
		nobodyLed := time.Duration(min(milliseconds, math.MaxInt64/uint64(time.Millisecond))) * time.Millisecond
		n.NobodyLed = &nobodyLed
	}
	if err != nil {
		return TermNote{}, err
	}
	n.Zone, n.Cause = fields[2], fields[4]
	return n.bounded(), nil
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

// word returns a text as one word of no more than most bytes.
func word(s string, most int) string {
	switch {
	case s == unknown:
		return "_"
	case len(s) <= most && strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0:
		return s // as most are
	}
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
	lines, last, known := r.History.cutLast()
	d := r.Details
	if known {
		if last.Token == 0 && d.Token != 0 && d.Holder != "" && last.Holder == word(d.Holder, mostHolder) {
			last.line = last.withToken(d.Token)
		}
		lines = append(lines, last.line)
	}
	if r.Holder != "" && (!known || !r.isOf(last.TermNote)) {
		now := TermNote{Acquired: r.AcquireTime, Holder: r.Holder, Cause: CauseOtherProgram}
		if d.Holder == r.Holder {
			now.Zone, now.Token, now.Cause = d.Zone, d.Token, ""
		}
		lines = now.appendTo(lines)
	}
	return joined(lines)
}

// isOf reports whether a record with a holder is of a term.
func (r Record) isOf(n TermNote) bool {
	return n.Holder == word(r.Holder, mostHolder) && n.Acquired.Equal(toMillisecond(r.AcquireTime))
}
