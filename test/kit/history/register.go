// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"time"

	"github.com/zonelect/zonelect/test/kit/events"
)

// Revision is one state of a register, and the write that made it.
type Revision struct {
	Version  uint64 // of etcd
	Token    uint64
	Identity string
	Sequence int // the number of the write within its term
}

// Write names a write.
type Write struct {
	Identity string
	Token    uint64
	Sequence int
}

// Write names the write that made the revision.
func (r Revision) Write() Write { return Write{r.Identity, r.Token, r.Sequence} }

// Printed is what each program printed, by its identity.
type Printed map[string][]events.Event

// Writes returns all writes that the programs reported.
func (p Printed) Writes() map[Write]events.Event {
	all := map[Write]events.Event{}
	for identity, printed := range p {
		for _, event := range printed {
			if event.Event == "wrote" {
				all[Write{identity, event.Token, event.Sequence}] = event
			}
		}
	}
	return all
}

// begun is when the work of each term began, by its token.
func (p Printed) begun() map[uint64]time.Time {
	all := map[uint64]time.Time{}
	for _, printed := range p {
		for _, event := range printed {
			if event.Event == "leading" {
				all[event.Token] = event.Time
			}
		}
	}
	return all
}

// Register is every revision of a register, in etcd's order.
type Register []Revision

// Stale is a write that landed after a write of a later term, or after a later
// write of its own term.
type Stale struct{ Revision, After Revision }

func (s Stale) String() string {
	r, a := s.Revision, s.After
	return fmt.Sprintf("revision %d: %s wrote %d of term %d after %s wrote %d of term %d",
		r.Version, r.Identity, r.Sequence, r.Token, a.Identity, a.Sequence, a.Token)
}

// Overlaps checks the order of the writes against the rule that tokens never
// fall, nor numbers within a term. It returns the stale writes whose author was
// still at work, and the number of the other ones: writes that were sent in
// time and landed late, which nobody can call back.
func (r Register) Overlaps(printed Printed) (overlaps []Stale, late int) {
	reports, begun := printed.Writes(), printed.begun()
	var newest Revision
	for _, next := range r {
		s := Stale{next, newest}
		switch {
		case !s.isStale():
			newest = next
		case s.atWork(reports, begun[newest.Token]):
			overlaps = append(overlaps, s)
		default:
			late++
		}
	}
	return overlaps, late
}

func (s Stale) isStale() bool {
	r, newest := s.Revision, s.After
	return r.Token < newest.Token ||
		r.Token == newest.Token && (r.Identity != newest.Identity || r.Sequence <= newest.Sequence)
}

// atWork reports whether the author of a stale write was still at work after
// the successor's work began, at the time successor. It was if the write was
// acknowledged, if it sent the write after the successor had begun, or if both
// have the same token.
func (s Stale) atWork(reports map[Write]events.Event, successor time.Time) bool {
	r, newest := s.Revision, s.After
	report, told := reports[r.Write()]
	meanwhile := told && r.Token < newest.Token && !successor.IsZero() && report.Sent.After(successor)
	return told && report.Acknowledged() || meanwhile || r.Token == newest.Token && r.Identity != newest.Identity
}
