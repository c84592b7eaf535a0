// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package timeline draws who led, when and why, as one HTML page that needs no network.
//
// Whoever has seen an election fills in a History, and Render writes the page: the
// candidates by zone, leadership as bars, faults as shaded spans, the ends of leases and the
// phases of each failover on one axis of time. Tables below the picture say the same in words.
package timeline

import "time"

// History is what was seen of one or several elections. All times are of one clock.
type History struct {
	Title string `json:"title"`
	// Begin is what the page counts from. Zero means the first time in the history.
	Begin time.Time `json:"begin,omitzero"`
	// End is when watching ended. Zero means the last time in the history.
	End time.Time `json:"end,omitzero"`
	// Zones gives their order. Zones that only lanes name come after these.
	Zones     []string   `json:"zones,omitempty"`
	Lanes     []Lane     `json:"lanes,omitempty"`
	Terms     []Term     `json:"terms,omitempty"`
	Faults    []Fault    `json:"faults,omitempty"`
	Expiries  []Expiry   `json:"expiries,omitempty"`
	Failovers []Failover `json:"failovers,omitempty"`
	Notes     []Note     `json:"notes,omitempty"`
}

// Lane is one candidate for one lock.
type Lane struct {
	// ID is what the rest of the history calls the lane. No two lanes share one.
	ID string `json:"id"`
	// Name is the identity that the page shows. Empty means ID.
	Name string `json:"name,omitempty"`
	Zone string `json:"zone,omitempty"`
	// Group is the lock, or the elector, such as client-go's. One lane of a group leads at a
	// time.
	Group string `json:"group,omitempty"`
}

// Term is a time in which a candidate led.
type Term struct {
	Lane string    `json:"lane"`
	From time.Time `json:"from"`
	// To is zero for a term that goes on.
	To    time.Time `json:"to,omitzero"`
	Token uint64    `json:"token,omitempty"`
	Cause string    `json:"cause,omitempty"` // why it began
	Ended string    `json:"ended,omitempty"` // why it ended
}

// FaultKind is what was broken.
type FaultKind string

// The kinds. Each has a pattern of its own.
const (
	Power  FaultKind = "power"  // a zone has no power
	API    FaultKind = "api"    // no API server answers
	Kill   FaultKind = "kill"   // a process is killed
	Cut    FaultKind = "cut"    // the network is cut
	Freeze FaultKind = "freeze" // a process stands still
	Other  FaultKind = "other"
)

// Fault is a time in which something was broken: in a zone, for a lane, or, if both are
// empty, everywhere.
type Fault struct {
	Kind FaultKind `json:"kind"`
	Zone string    `json:"zone,omitempty"`
	Lane string    `json:"lane,omitempty"`
	From time.Time `json:"from"`
	// To is zero for a fault that goes on, and From for one of an instant, such as a kill.
	To   time.Time `json:"to,omitzero"`
	Text string    `json:"text,omitempty"`
}

// Expiry is when the lease of a lane's candidate ended because nobody had renewed it.
type Expiry struct {
	Lane string    `json:"lane"`
	At   time.Time `json:"at"`
}

// PhaseName is a part of a failover.
type PhaseName string

// The phases that the span election.failover has, and one that only others have.
const (
	Silence       PhaseName = "silence"    // from the last sign of life until the lock is free
	TakeoverDelay PhaseName = "delay"      // others go first
	Acquire       PhaseName = "acquire"    // the requests
	Adopt         PhaseName = "adopt"      // the lock is held, and the work may not begin yet
	WorkStart     PhaseName = "work_start" // until the work runs
	Idle          PhaseName = "idle"       // the lock is free, nobody takes it, and nothing says why
)

// Phase is one part of a failover.
type Phase struct {
	Name PhaseName `json:"name"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Failover is how a lane's candidate took the lead over. Its phases are in order.
type Failover struct {
	Lane     string  `json:"lane"`
	Previous string  `json:"previous,omitempty"` // the identity of the former leader
	Cause    string  `json:"cause,omitempty"`
	Token    uint64  `json:"token,omitempty"`
	Phases   []Phase `json:"phases"`
}

// Note is a remark about an instant, for a lane or for all.
type Note struct {
	Lane string    `json:"lane,omitempty"`
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}
