// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/zonelect/zonelect/locks"
)

// Handover asks the holder of a lock to hand it over. Any other holder ignores it. It is JSON, as
// locks.Details has it, such as {"holder":"op-a_1f"}.
type Handover struct {
	Holder string `json:"holder"`
	locks.Successor
}

// FormatHandover is the inverse of [ParseHandover].
func FormatHandover(r Handover) string {
	text, _ := json.Marshal(r) // strings always have a JSON form
	return string(text)
}

// ParseHandover returns the request, or an error that says how to write one.
func ParseHandover(text string) (Handover, error) {
	var r Handover
	err := json.Unmarshal([]byte(text), &r)
	if err == nil && r.Holder == "" {
		err = errors.New("it names no holder")
	}
	if err != nil {
		return Handover{}, fmt.Errorf(`invalid handover request: %w: write {"holder":"IDENTITY"}, `+
			`with "identity" or "zone" of the successor if that matters`, err)
	}
	return r, nil
}
