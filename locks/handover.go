// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package locks

import "time"

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
