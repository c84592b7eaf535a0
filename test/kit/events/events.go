// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package events has the lines that the test programs print about a candidate:
// one JSON object each.
package events

import (
	"encoding/json"
	"os"
	"sync"
	"time"

	"github.com/zonelect/zonelect/test/kit/register"
)

// Event is one line.
type Event struct {
	Time       time.Time `json:"time"`
	Identity   string    `json:"identity"`
	Event      string    `json:"event"`
	Lock       string    `json:"lock"`
	Leader     string    `json:"leader,omitempty"`
	LeaderZone string    `json:"leaderZone,omitempty"`
	Token      uint64    `json:"token,omitempty"`
	Cause      string    `json:"cause,omitempty"`
	Previous   string    `json:"previous,omitempty"`
	Error      string    `json:"error,omitempty"`

	// Of a write of the register.
	Sequence int       `json:"sequence,omitempty"`
	Version  string    `json:"version,omitempty"`
	Sent     time.Time `json:"sent,omitzero"`

	// Goroutines that are left when everything has ended.
	Goroutines int `json:"goroutines,omitempty"`
}

// Wrote returns the event "wrote", for one write of the register.
func Wrote(token uint64, w register.Write) Event {
	e := Event{Event: "wrote", Token: token, Sequence: w.Sequence, Version: w.Version, Sent: w.Sent}
	if w.Err != nil {
		e.Error = w.Err.Error()
	}
	return e
}

// Acknowledged reports whether e is a write that the API server acknowledged.
func (e Event) Acknowledged() bool { return e.Event == "wrote" && e.Error == "" }

// Printer prints the events of one candidate to stdout, unbuffered. It is safe
// for concurrent use.
type Printer struct {
	Identity, Lock string

	mu sync.Mutex
}

// Print adds time, identity and lock to e, and prints it.
func (p *Printer) Print(e Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.Time, e.Identity, e.Lock = time.Now(), p.Identity, p.Lock
	line, err := json.Marshal(e)
	if err != nil {
		return // no field can fail to marshal
	}
	_, _ = os.Stdout.Write(append(line, '\n')) // there is nowhere to report an error
}
