// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/internal/transport/live"
	"github.com/zonelect/zonelect/locks"
)

// operation is what a request asks of the lock.
type operation string

const (
	opRead    operation = "read"
	opAcquire operation = "acquire"
	opRenew   operation = "renew"
	opRelease operation = "release"
	opWatch   operation = "watch"
	opWrite   operation = "write" // any of acquire, renew and release
)

// kind groups operations by what can be wrong with them. All writes are one kind, because
// if one of them works, the others do.
func (o operation) kind() operation {
	if o == opAcquire || o == opRenew || o == opRelease {
		return opWrite
	}
	return o
}

// request is one call of the lock.
type request struct {
	op     operation
	since  time.Time     // only on a connection that was alive after this; zero if any will do
	asOf   locks.Version // reads: the newest version when it was sent
	base   locks.Version // writes: what record replaces
	record locks.Record
	sent   moment        // read before the call is made; writes that extend a term: when record was made
	limit  time.Duration // how long it may take
}

// fresh reports whether the request uses a connection that is known to be alive. If no
// answer comes on that, the API is away.
func (r request) fresh() bool { return !r.since.IsZero() }

// writes reports whether the request is a write.
func (r request) writes() bool { return r.op != opRead }

// isSuperseded reports whether a write that replaces a version can no longer land.
func (r request) isSuperseded(newest locks.Version) bool {
	return r.base.Exists() && r.base.Number < newest.Number
}

// answer is the outcome of a request.
type answer struct {
	request
	snapshot locks.Snapshot
	err      error
	end      time.Time

	flight *flight
	newest bool // no request was sent after it
	known  bool // it tells nothing: whether the write landed was known before, or the read was canceled
}

// conflict reports whether the write did not land because of another write. A read never
// conflicts, whatever a server says.
func (a answer) conflict() bool { return a.writes() && errors.Is(a.err, locks.ErrConflict) }

// shows reports whether a read shows this version or a later one. A deletion has no version: it comes
// after what was known when the read was sent.
func (a answer) shows(version uint64) bool {
	switch {
	case version == 0:
		return true
	case a.snapshot.Version.Exists():
		return a.snapshot.Version.Number >= version
	case a.asOf.Exists():
		return a.asOf.Number >= version-1
	}
	return a.asOf.Number >= version
}

// failed reports whether the request got no answer that says anything about the lock.
func (a answer) failed() bool { return a.err != nil && !a.conflict() }

// flight is a request that was sent.
type flight struct {
	request
	cancel func()

	gaveUp   bool      // it was canceled to make room for another
	lost     bool      // it cannot land any more: another write has replaced the version that it was to replace
	needs    uint64    // what a read must show while the state is unsure, because it became so after the read was sent
	unlanded time.Time // when a read last showed that it had not landed; zero if none did
}

// end is when a request is over at the latest.
func (f *flight) end() time.Time { return f.sent.awake.Add(f.limit) }

// overdueAt is when the request has gone for so long without an answer, and without a read that
// showed that it had not landed.
func (f *flight) overdueAt(patience time.Duration) time.Time {
	return rules.Latest(f.sent.awake, f.unlanded).Add(patience)
}

// mayLand reports whether it is a write that may still land.
func (f *flight) mayLand() bool { return f.writes() && !f.lost }

// landed is the answer that the lock would have given to a write which was seen to have
// landed.
func (f *flight) landed(s locks.Snapshot, now time.Time) answer {
	return answer{request: f.request, snapshot: s, end: now, flight: f}
}

// send starts the request in a goroutine of its own, so that the loop never waits for the network. A slow request
// goes on while another one overtakes it on another connection.
func (r *run) send(ask request) {
	if ask.sent.awake.IsZero() { // else trust counts from no later than the time in the record
		ask.sent = r.clock.now()
	}
	ctx, cancel := context.WithTimeout(r.requests, ask.limit)
	if ask.fresh() {
		ctx = live.Since(ctx, ask.since)
	}
	f := &flight{request: ask, cancel: cancel}
	if excess := r.exchange.send(f); excess != nil {
		excess.gaveUp = true
		excess.cancel()
	}
	a := &answer{request: ask, flight: f}
	r.background.Go(func() {
		defer cancel()
		if ask.op == opRead {
			a.snapshot, a.err = r.config.Lock.Read(ctx)
		} else {
			a.snapshot, a.err = r.config.Lock.Write(ctx, ask.base, ask.record)
		}
		a.end = time.Now()
		r.answers <- a
	})
}

// received notes that the answer has been taken from the channel, and completes it. A read that was given up
// tells nothing once another request was answered.
func (r *run) received(a *answer) answer {
	if a.flight.gaveUp && (a.writes() || r.exchange.overtaken > 0) && errors.Is(a.err, context.Canceled) {
		a.err = fmt.Errorf("no answer within %v: %w", a.end.Sub(a.sent.awake).Round(time.Millisecond), context.DeadlineExceeded)
	}
	r.exchange.came(a)
	return *a
}

// cancelAll ends all requests that are under way. A write may have landed.
func (r *run) cancelAll() {
	for _, f := range r.exchange.flights {
		f.cancel()
	}
}

// takeAnswers takes answers until it is done. After patience it cancels what is under way. After as much again it
// gives up on a lock that does not obey its context, and returns false.
func (r *run) takeAnswers(patience time.Duration, done func() bool, answered func(answer)) bool {
	r.loopWatchdog.expect(time.Now().Add(2 * patience))
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for late := false; !done(); {
		select {
		case a := <-r.answers:
			answered(r.received(a))
		case <-timer.C:
			if late {
				return false
			}
			late = true
			r.cancelAll()
			timer.Reset(patience)
		}
	}
	return true
}
