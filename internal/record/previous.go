// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/json"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// AnnotationPrevious holds locks.Record.Previous as JSON: holder, until and cause.
const AnnotationPrevious = "zonelect.dev/previous"

// maxPrevious is the longest text in AnnotationPrevious, in bytes. A longer one counts as garbage.
const maxPrevious = 512

// previous is the JSON of a locks.Previous.
type previous struct {
	Holder string    `json:"holder,omitempty"`
	Until  time.Time `json:"until,omitzero"`
	Cause  string    `json:"cause"`
}

// formatPrevious returns nothing if there is no cause, or if the text would be too long.
func formatPrevious(p locks.Previous) string {
	text, err := json.Marshal(previous(p))
	if p.Cause == "" || err != nil || len(text) > maxPrevious {
		return ""
	}
	return string(text)
}

// parsePrevious reverses formatPrevious. Anybody may have written the text: what makes no sense counts
// as absent.
func parsePrevious(text string) locks.Previous {
	var p previous
	if len(text) > maxPrevious || json.Unmarshal([]byte(text), &p) != nil || p.Cause == "" {
		return locks.Previous{}
	}
	p.Until = p.Until.UTC() // so that equal records are equal
	return locks.Previous(p)
}
