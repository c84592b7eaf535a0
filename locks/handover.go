// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Successor selects the candidate that leads next. The zero value selects the one that
// would take over if the current leader died.
type Successor struct {
	// Identity selects one candidate, and Zone all candidates in a zone. An empty
	// field selects all.
	Identity string `json:"identity,omitempty"`
	Zone     string `json:"zone,omitempty"`
}

// Handover names, in a released record, the candidate that leads next.
type Handover struct {
	To string // an identity; empty if no candidate was named
	// Precedence is how long all other candidates leave the lock alone. Each counts from
	// when it first saw the release. A reader caps it at its own LeaseDuration. Whole
	// milliseconds.
	Precedence time.Duration
}

// HandoverRequest asks the holder of a lock to hand it over. Any other holder ignores
// it.
type HandoverRequest struct {
	Holder string `json:"holder"`
	Successor
}

// Request is the text form of a HandoverRequest, which people may write.
type Request string

// Request returns the text of q.
func (q HandoverRequest) Request() Request {
	text, _ := json.Marshal(q) // strings always have a JSON form
	return Request(text)
}

// Parse returns the request, or an error that says how to write one.
func (r Request) Parse() (HandoverRequest, error) {
	var q HandoverRequest
	err := json.Unmarshal([]byte(r), &q)
	if err == nil && q.Holder == "" {
		err = errors.New("it names no holder")
	}
	if err != nil {
		return HandoverRequest{}, fmt.Errorf(`invalid handover request: %w: write {"holder":"IDENTITY"}, with "identity" or "zone" of the successor if that matters`, err)
	}
	return q, nil
}
