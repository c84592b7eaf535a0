// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package handovers reads and writes requests to hand a lock over, as locks.Details has them and as
// people may write them: JSON such as {"holder":"op-a_1f"}. It is pure: no I/O, no clock.
package handovers

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/zonelect/zonelect/locks"
)

// Request asks the holder of a lock to hand it over. Any other holder ignores it.
type Request struct {
	Holder string `json:"holder"`
	locks.Successor
}

// Format is the inverse of [Parse].
func Format(r Request) string {
	text, _ := json.Marshal(r) // strings always have a JSON form
	return string(text)
}

// Parse returns the request, or an error that says how to write one.
func Parse(text string) (Request, error) {
	var r Request
	err := json.Unmarshal([]byte(text), &r)
	if err == nil && r.Holder == "" {
		err = errors.New("it names no holder")
	}
	if err != nil {
		return Request{}, fmt.Errorf(`invalid handover request: %w: write {"holder":"IDENTITY"}, with "identity" or "zone" of the successor if that matters`, err)
	}
	return r, nil
}
