// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package doctor finds out why nobody leads a lock, or why it took long.
//
// Its checks are pure: a [Lock] is what was read, and [Lock.Check] judges it. What could not be read is
// a [Fact] that says why, and the check that needs it says so.
package doctor

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

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
	Lock   string `json:"lock,omitempty"` // empty if it is about the namespace
	Check  string `json:"check"`
	Result Result `json:"result"`
	Text   string `json:"text"`
	// Hint is what to do about it.
	Hint string `json:"hint,omitempty"`
	// Link is where the check is explained.
	Link string `json:"link"`
}

// Link is where a check is explained.
func Link(check string) string { return Page("operate.md#" + check) }

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

// named returns a name for a command that people copy, or a word for it: only a DNS name is no
// more than a name to a shell.
func named(name, word string) string {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return word
	}
	return name
}

// kubectl is a command for people to copy, about what is in a namespace.
func kubectl(namespace, format string, args ...any) string {
	return "'kubectl " + fmt.Sprintf(format, args...) + " -n " + named(namespace, "NAMESPACE") + "'"
}

// Page is where a document can be read: who installed the plugin alone has none.
func Page(of string) string { return "https://github.com/zonelect/zonelect/blob/main/docs/" + of }

// Rights says how to apply a kustomize base that grants something to candidates.
const Rights = "https://github.com/zonelect/zonelect/blob/main/docs/install.md#rights"

func grant(account string, bases ...string) string {
	return fmt.Sprintf("kustomize base %s for service account %s: see %s", strings.Join(bases, " and "), account, Rights)
}

// most is how many names a finding lists.
const most = 5

// list names some things, and says how many more there are.
func list(names []string) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
