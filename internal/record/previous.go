// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// AnnotationPrevious holds locks.Record.Previous as JSON: holder, until and cause.
const AnnotationPrevious = "zonelect.dev/previous"

// MaxPrevious is the longest text in AnnotationPrevious, in bytes. A longer one counts as garbage.
const MaxPrevious = 512

// A cause is a short word of these letters.
const (
	mostCause    = 32
	causeLetters = "abcdefghijklmnopqrstuvwxyz-"
)

// previous is the JSON of a locks.Previous.
type previous struct {
	Holder string    `json:"holder,omitempty"`
	Until  time.Time `json:"until,omitzero"`
	Cause  string    `json:"cause"`
}

// formatPrevious returns nothing if there is no cause. It leaves a holder out that is too long.
func formatPrevious(p locks.Previous) string {
	text, err := json.Marshal(previous(p))
	switch {
	case p.Cause == "" || err != nil:
		return ""
	case len(text) <= MaxPrevious:
		return string(text)
	case p.Holder == "":
		return ""
	}
	p.Holder = ""
	return formatPrevious(p)
}

// parsePrevious reverses formatPrevious. Anybody may have written the text: what makes no sense counts
// as absent.
func parsePrevious(text string) locks.Previous {
	var p previous
	if len(text) > MaxPrevious || json.Unmarshal([]byte(text), &p) != nil ||
		p.Cause == "" || len(p.Cause) > mostCause || strings.Trim(p.Cause, causeLetters) != "" {
		return locks.Previous{}
	}
	if p.Until = p.Until.UTC(); p.Until.Year() < 1970 || p.Until.Year() > 9999 {
		p.Until = time.Time{}
	}
	if again, err := json.Marshal(p); err != nil || len(again) > MaxPrevious {
		return locks.Previous{}
	}
	return locks.Previous(p)
}
