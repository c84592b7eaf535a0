// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
)

// Why a term ends, as context.Cause of the work's context reports it. Compare with
// errors.Is, because an error with details may wrap the cause.
var (
	// ErrLost: trust in the term ran out, or somebody else has the lock.
	ErrLost = locks.ErrTermLost
	// ErrResigned: Resign was called.
	ErrResigned = errors.New("leadership resigned")
	// ErrUnhealthy: the candidate was unhealthy for too long, see [Health].
	ErrUnhealthy = errors.New("leader unhealthy")
	// ErrStopped: the context given to Run ended.
	ErrStopped = errors.New("elector stopped")
	// ErrReturned: the work returned by itself.
	ErrReturned = errors.New("work returned")
)

// ErrUnfinished is an error for the work to return, wrapped, if it returns although
// part of it may go on. The elector then does not release the lock but lets the lease
// run out, and Run returns. This Elector does not campaign again.
var ErrUnfinished = errors.New("work not finished")

// errGoexit is the result of work that did not return.
var errGoexit = fmt.Errorf("%w: it ended its goroutine by runtime.Goexit, as testing.T.FailNow does: return from it instead", ErrUnfinished)

// lostError says why a term was lost.
type lostError struct {
	// holder is the identity that has the lock now, as far as is known. It is empty if
	// nobody has it, and if trust ran out: then the lock may still be this candidate's.
	holder string
	reason string // in words
}

// errUnanswered says that trust ran out.
var errUnanswered = &lostError{reason: "no renewal was acknowledged"}

func (e *lostError) Error() string {
	if e.holder == "" {
		return fmt.Sprintf("%v: %s", ErrLost, e.reason)
	}
	return fmt.Sprintf("%v: %s: the lock is held by %s", ErrLost, e.reason, e.holder)
}

func (e *lostError) Unwrap() error { return ErrLost }

// Term is one candidate's time as the leader, from an acknowledged acquisition on. It
// is a value: you can copy it, keep it beyond its end and use it from any goroutine.
// The zero Term was never trusted.
type Term struct {
	Lock   locks.Description
	Holder string // the identity that leads
	Zone   string // the holder's zone; empty if unknown
	// Token is the fencing token. It is larger than that of every earlier term of the
	// lock, so that a receiver of writes can refuse every token that is smaller than
	// the largest it has seen.
	Token uint64
	// Began is when the acquisition was acknowledged, by the wall clock.
	Began time.Time
	// Cause is how the lock came to be free. Previous is the identity that held it
	// before; empty if none is known.
	Cause    status.Cause
	Previous string

	trust *trust
}

// TrustedFor returns how much longer this term is trusted if no renewal extends it. It
// is zero or less once the term is not trusted. It reads the boot-time clock, so its
// result is right at once after the machine was suspended or the process was stopped.
// Time passes between this check and what the caller does next: only a receiver that
// compares tokens closes that gap. It is safe for concurrent use.
func (t Term) TrustedFor() time.Duration {
	if t.trust == nil {
		return 0
	}
	return t.trust.left()
}

// trust says how long a term may be acted on. The elector's goroutine extends it, and any
// goroutine may read it.
type trust struct {
	clock      clock
	start      moment
	checkEvery time.Duration
	until      atomic.Int64 // nanoseconds after start; no more than that is trusted
	ended      atomic.Int64 // when the trust ended, likewise; zero before
	timer      *time.Timer  // ends the work when trust runs out, whatever hangs
	// over is canceled when the trust ends, or soon after it.
	over   context.Context
	finish context.CancelFunc

	// What the timer was armed for. Only its own goroutine uses these.
	armed int64     // the value of until
	ends  time.Time // when that has run out at the latest: a suspension may bring it forward
}

// newTrust begins a trusted span that was confirmed by a request sent at start. expired
// runs once, in its own goroutine, when the span has run out. It must not block. Timers
// stand still while the machine is suspended, so the timer checks again after checkEvery.
func newTrust(c clock, start moment, span, checkEvery time.Duration, expired func()) *trust {
	t := &trust{clock: c, start: start, checkEvery: checkEvery}
	t.over, t.finish = context.WithCancel(context.Background())
	t.until.Store(int64(span))
	ready := make(chan struct{})
	t.timer = time.AfterFunc(rules.Longest, func() {
		<-ready
		until, left := t.remaining()
		switch {
		case left > 0:
			t.arm(until, left)
			return
		case until == 0: // end took it away, and its caller knows why
			return
		}
		t.ended.Store(until)
		if t.until.CompareAndSwap(until, 0) { // an answer that comes now is too late
			t.finish()
			expired()
		} else {
			t.timer.Reset(0) // a renewal came just now
		}
	})
	t.arm(int64(span), t.left())
	close(ready)
	return t
}

// arm sets the timer.
func (t *trust) arm(until int64, left time.Duration) {
	t.armed, t.ends = until, time.Now().Add(left)
	t.timer.Reset(min(left, t.checkEvery))
}

// remaining is left, for the timer. If no renewal has come since the timer was armed, and
// ends has passed, trust has run out, and no other clock need be read.
func (t *trust) remaining() (until int64, left time.Duration) {
	until = t.until.Load()
	if left = time.Until(t.ends); until != t.armed || left > 0 {
		left = t.left()
	}
	return until, left
}

func (t *trust) left() time.Duration { return time.Duration(t.until.Load()) - t.elapsed() }

// elapsed is the time since start, or more if the clock could not be read exactly.
func (t *trust) elapsed() time.Duration {
	now := t.clock.now()
	now.awake = time.Now() // what the reading took has elapsed too
	return now.sinceAtMost(t.start)
}

// overFor is how long ago the trust ended.
func (t *trust) overFor() time.Duration { return t.elapsed() - time.Duration(t.ended.Load()) }

// extend extends the trust to a span after sent, the moment at which the acknowledged
// request was sent. Ended trust stays ended.
func (t *trust) extend(sent moment, span time.Duration) {
	before := t.until.Load()
	if before > 0 {
		t.until.CompareAndSwap(before, max(before, int64(sent.since(t.start)+span)))
	}
}

// end takes all trust away permanently.
func (t *trust) end() { t.revoke()() }

// revoke is end. The function that it returns does what may wait until the work has heard of it: a clock
// may be slow to read.
func (t *trust) revoke() (finish func()) {
	until := t.until.Swap(0)
	return func() {
		if until > 0 {
			t.ended.Store(min(until, int64(t.elapsed())))
		}
		t.timer.Stop()
		t.finish()
	}
}

type termKey struct{}

// TermFromContext returns the term of the work that got ctx, or a context that ctx was
// made from. It returns false for all other contexts.
func TermFromContext(ctx context.Context) (Term, bool) {
	term, ok := ctx.Value(termKey{}).(Term)
	return term, ok
}
