// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"slices"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// askers is how many candidates ask servers about a holder.
const askers = 2

// tenure identifies a term by what all of its renewals have in common.
type tenure struct {
	holder      string
	acquired    int64 // in microseconds, as a record has it
	transitions int32
}

func tenureOf(r locks.Record) tenure {
	return tenure{r.Holder, r.AcquireTime.UnixMicro(), r.Transitions}
}

// breaks reports whether a snapshot's record is of a term that does not follow
// the one seen before, on the same object. A restored backup looks so, and an
// old record that somebody put back: its holder may be long dead, and who held
// the lock since may live. So such a term ends by time alone, until the next.
func (j *judge) breaks(s locks.Snapshot) bool {
	switch {
	case j.startOver:
		return true
	case !j.exists, tenureOf(s.Record) == tenureOf(j.renewal):
		return j.broken
	}
	return j.uid != s.Version.UID || s.Record.Transitions <= j.renewal.Transitions
}

// suspect returns the holder whose death would free the lock: only where its
// details are believed (S11), and nothing but its lease keeps others out. Part
// of a record may be what somebody else left who lives, and a holder that waits
// may do so for another who does.
func (j *judge) suspect() (locks.Suspect, bool) {
	r := j.newest.Record
	if !j.newest.Version.Exists() || j.newest.Partial || j.broken ||
		r.Holder == "" || r.Holder == j.identity || r.Details.Holder != r.Holder || r.Details.Waits != "" {
		return locks.Suspect{}, false
	}
	return locks.Suspect{Details: r.Details, Acquired: time.UnixMicro(r.AcquireTime.UnixMicro())}, true
}

// died reports whether the lock's holder was proven dead. A renewal that is seen
// after the proof does not refute it: the dead process sent it before it died,
// and another process would have another identity (S9), or at least another
// term. It only makes the takeover's compare-and-swap fail, which is then
// repeated on the newest version.
func (j *judge) died() bool {
	_, suspected := j.suspect()
	return suspected && tenureOf(j.newest.Record) == j.dead
}

// inquest is the question about one suspect, which is asked in a goroutine of
// its own. The zero inquest is about nobody.
type inquest struct {
	suspect locks.Suspect
	over    Takeover // the takeover that Suspect.Early was decided by
	about   tenure
	proven  chan struct{} // gets a word when it is dead
	end     context.CancelFunc
}

// inquire asks whether the holder is dead, if that was not asked yet as things
// are now. Who may not campaign has no use for it.
func (r *run) inquire() {
	if r.config.Dead == nil {
		return
	}
	suspect, suspected := r.judge.suspect()
	if !suspected || !r.clearance.Granted {
		r.endInquest()
		return
	}
	over := r.takeover(freeing{cause: CauseDied, holder: suspect.Details.Holder, details: suspect.Details})
	last := &r.inquest
	suspect.Early = last.suspect.Early
	if suspect == last.suspect && slices.Equal(over.Peers, last.over.Peers) && slices.Equal(over.Evacuated, last.over.Evacuated) {
		return // to rank them all again would take time that a takeover has not
	}
	suspect.Early, last.over = r.isEarly(over), over
	if suspect == last.suspect {
		return
	}
	r.endInquest()
	ctx, end := context.WithCancel(r.watching)
	proven := make(chan struct{}, 1)
	r.inquest = inquest{suspect: suspect, over: over, about: tenureOf(r.judge.newest.Record), proven: proven, end: end}
	r.beside.Go(func() {
		if r.config.Dead(ctx, suspect) == nil {
			proven <- struct{}{}
		}
	})
}

// died takes in that the suspect is dead.
func (r *run) died() {
	r.judge.dead, r.judge.deadAt = r.inquest.about, time.Now()
}

// endInquest ends the question; its answer does not count any more.
func (r *run) endInquest() {
	if r.inquest.end != nil {
		r.inquest.end()
	}
	r.inquest = inquest{}
}

// isEarly reports whether this candidate is among the first at the takeover from
// a holder that has died, as far as it knows.
func (r *run) isEarly(over Takeover) bool {
	sooner := r.sooner(over)
	me, before := locks.Peer{Candidate: r.config.Candidate}, 0
	for _, p := range r.peers {
		if p.Identity != over.Previous && sooner(p, me) < 0 {
			before++
		}
	}
	return before < askers
}
