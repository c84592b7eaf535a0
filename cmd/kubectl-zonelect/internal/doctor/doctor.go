// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package doctor finds out why nobody leads a lock, or why it took long.
//
// Its checks are pure: a [Lock] is what was read, and [Lock.Check] judges it. What could not be read is
// a [Fact] that says why, and the check that needs it says so.
package doctor

import "fmt"

// Result is how a check came out.
type Result string

// The results, from good to bad.
const (
	OK      Result = "ok"
	Note    Result = "note"    // worth knowing, or it could not be checked
	Warning Result = "warning" // it may become a problem, or made one worse
	Problem Result = "problem" // it keeps the lock from being led
)

// Finding is what one check found.
type Finding struct {
	Lock   string `json:"lock,omitempty"` // empty in an audit
	Check  string `json:"check"`
	Result Result `json:"result"`
	Text   string `json:"text"`
	// Hint is what to do about it.
	Hint string `json:"hint,omitempty"`
	// Link is where the check is explained.
	Link string `json:"link"`
}

// do adds what to do about a finding.
func (f Finding) do(format string, args ...any) Finding {
	f.Hint = fmt.Sprintf(format, args...)
	return f
}

func say(r Result, format string, args ...any) Finding {
	return Finding{Result: r, Text: fmt.Sprintf(format, args...)}
}

// Fact is something that was read. Unknown is why it could not be; then it has no value.
type Fact[T any] struct {
	Value   T
	Unknown string
}

// Count returns how many findings have a result.
func Count(all []Finding, r Result) int {
	n := 0
	for _, f := range all {
		if f.Result == r {
			n++
		}
	}
	return n
}

// Page is where a document can be read: who installed the plugin alone has none.
func Page(of string) string { return "https://github.com/zonelect/zonelect/blob/main/docs/" + of }
