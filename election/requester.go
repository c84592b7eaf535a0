// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/internal/live"
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
	beat   beat          // renewals: whether the lock's Renewer may do it
	before moment        // beats: a reading from before what renews the record may have left
}

// beat says whether a Renewer may do a renewal instead of a write.
type beat int

const (
	noBeat    beat = iota
	beatFirst      // the record is written only if nothing else renews it
	beatLater      // the Renewer does it if the turn of the write does not come soon
)

// fresh reports whether the request uses a connection that is known to be alive. If no
// answer comes on that, the API is away.
func (r request) fresh() bool { return !r.since.IsZero() }

// writes reports whether the request is a write.
func (r request) writes() bool { return r.op != opRead }

// acquires reports whether the request is an acquisition.
func (r request) acquires() bool { return r.op == opAcquire }

// answer is the outcome of a request.
type answer struct {
	request
	snapshot locks.Snapshot
	err      error
	end      time.Time

	departed moment // when it left this process: later than sent if it waited for its turn or for a beat
	flight   *flight
	newest   bool // no request was sent after it
}

// conflict reports whether the write did not land because of another write. A read never
// conflicts, whatever a server says.
func (a answer) conflict() bool { return a.writes() && errors.Is(a.err, locks.ErrConflict) }

// failed reports whether the request got no answer that says anything about the lock.
func (a answer) failed() bool { return a.err != nil && !a.conflict() }

// mostFlights is how many requests may be under way at a time. The oldest is canceled to
// make room for another.
const mostFlights = 4

// flight is a request that is under way.
type flight struct {
	request
	cancel context.CancelFunc
	gaveUp bool                   // it was canceled to make room for another
	asked  time.Time              // when a read last showed that it had not landed; zero if none did
	lost   bool                   // it cannot land any more: another write has replaced the version that it was to replace
	left   atomic.Pointer[moment] // when it left this process; nil while it waits for its turn or for a beat
}

// departed is when the request left this process. While it waits for that, it is not known.
func (f *flight) departed() (at moment, known bool) {
	if left := f.left.Load(); left != nil {
		return *left, true
	}
	return moment{}, false
}

// held reports whether the request has not left this process yet.
func (f *flight) held() bool {
	_, known := f.departed()
	return !known
}

// overdueAt is when the request has gone for so long without an answer, and without a read that
// showed that it had not landed. A request that is held back is not overdue, but it may be soon. A
// creation is: others may create the record, lead, and lose it meanwhile, and a read may show that.
func (f *flight) overdueAt(patience time.Duration, now time.Time) time.Time {
	at, known := f.departed()
	switch {
	case !known && f.writes() && !f.base.Exists():
		at = f.sent
	case !known:
		return now.Add(patience)
	}
	return rules.Latest(at.awake, f.asked).Add(patience)
}

// requester makes the requests, each in its own goroutine, so that the loop never waits for
// the network. A slow request goes on while another one overtakes it on another connection.
// The loop owns all fields.
type requester struct {
	lock      locks.Lock
	renewer   locks.Renewer                                   // nil if each renewal is a write
	queue     func(context.Context) (leave func(), err error) // nil if no write waits for its turn
	soon      time.Duration                                   // how long a write waits that a beat can replace
	clock     clock
	watchdog  *loopWatchdog
	answers   chan *answer
	flights   []*flight     // oldest first
	newest    *flight       // the last request, while the loop waits for its answer
	readTook  time.Duration // how long a read takes, by the last answers: no longer than a write
	writeTook time.Duration // how long a write takes
	strays    strays
	wait      sync.WaitGroup
}

func newRequester(config Config, c clock, p *loopWatchdog) *requester {
	return &requester{
		lock: config.Lock, renewer: config.Lock.Capabilities().Renewer, queue: config.Queue, soon: config.Timing.RenewInterval,
		clock: c, watchdog: p, answers: make(chan *answer, mostFlights),
	}
}

// busy reports whether the loop waits for the answer to the last request.
func (c *requester) busy() bool { return c.newest != nil }

// writing reports whether the outcome of a write is still to come.
func (c *requester) writing() bool { return slices.ContainsFunc(c.flights, (*flight).writes) }

// acquiring reports whether an acquisition is under way.
func (c *requester) acquiring() bool { return slices.ContainsFunc(c.flights, (*flight).acquires) }

// room reports whether another request may be sent. If not, it cancels a lost one, or else the
// oldest.
func (c *requester) room() bool {
	if len(c.flights) < mostFlights {
		return true
	}
	worst := c.flights[0]
	if i := slices.IndexFunc(c.flights, func(f *flight) bool { return f.lost }); i >= 0 {
		worst = c.flights[i]
	}
	worst.gaveUp = true
	worst.cancel()
	return false
}

// send starts the request. Requests that are under way go on. There must be room.
func (c *requester) send(ctx context.Context, r request) {
	if r.sent.awake.IsZero() { // else trust counts from no later than the time in the record
		r.sent = c.clock.now()
	}
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	if r.fresh() {
		ctx = live.Since(ctx, r.since)
	}
	f := &flight{request: r, cancel: cancel}
	if r.beat != beatFirst && (c.queue == nil || !r.writes()) {
		f.left.Store(&r.sent)
	}
	c.flights, c.newest = append(c.flights, f), f
	c.expectNext()
	a := &answer{request: r, flight: f}
	c.wait.Go(func() {
		defer cancel()
		switch {
		case r.op == opRead:
			a.snapshot, a.err = c.lock.Read(ctx)
		case r.beat != beatFirst || !c.renewed(ctx, a):
			c.write(ctx, a)
		}
		a.end, a.departed = time.Now(), a.sent
		if at, known := f.departed(); known {
			a.departed = at
		}
		c.answers <- a
	})
}

// write makes a write when its turn has come, in the goroutine of the request.
func (c *requester) write(ctx context.Context, a *answer) {
	if c.queue != nil {
		leave, err := c.turn(ctx, a)
		if err != nil {
			a.err = err
			return
		}
		if leave == nil {
			return
		}
		defer leave()
	}
	if a.flight.held() {
		now := c.clock.now()
		if now.sinceAtMost(a.sent) >= a.limit { // the machine was suspended meanwhile: the term may have ended (S2)
			a.err = fmt.Errorf("the turn of the write came too late: %w", context.DeadlineExceeded)
			return
		}
		a.flight.left.Store(&now)
	}
	a.snapshot, a.err = c.lock.Write(ctx, a.base, a.record)
}

// turn waits for the turn of a write. If a beat may replace the write, and the turn does not come
// soon, it has the Renewer renew the record. leave is nil if that has happened. Otherwise the write
// keeps its place in the queue.
func (c *requester) turn(ctx context.Context, a *answer) (leave func(), err error) {
	if a.beat != beatLater {
		return c.queue(ctx)
	}
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	came := make(chan struct{})
	c.wait.Go(func() {
		defer close(came)
		leave, err = c.queue(ctx)
	})
	soon := time.NewTimer(c.soon)
	defer soon.Stop()
	select {
	case <-came:
		return leave, err
	case <-soon.C:
	}
	if !c.renewed(ctx, a) {
		<-came
		return leave, err
	}
	giveUp()
	if <-came; err == nil {
		leave()
	}
	return nil, nil
}

// renewed has the Renewer renew the record, and reports false if only a write can. What renewed it
// left after the request was sent, or else after the moment before. A suspension of the machine
// since then may have come afterwards, so it counts.
func (c *requester) renewed(ctx context.Context, a *answer) bool {
	sent, s, err := c.renewer.Renew(ctx, a.base)
	if errors.Is(err, locks.ErrNotKept) {
		return false
	}
	if a.snapshot, a.err = s, err; err == nil {
		from := a.before
		if !sent.Before(a.sent.awake) {
			from = a.sent
		}
		a.flight.left.Store(&moment{awake: sent, asleep: from.asleep})
	}
	return true
}

// received notes that the answer has been taken from the channel, and completes it.
func (c *requester) received(a *answer) answer {
	c.flights = slices.DeleteFunc(c.flights, func(f *flight) bool { return f == a.flight })
	if a.newest = a.flight == c.newest; a.newest {
		c.newest = nil
	}
	if !c.strays.note(a) && a.flight.gaveUp && errors.Is(a.err, context.Canceled) {
		a.err = fmt.Errorf("no answer within %v: %w", a.end.Sub(a.sent.awake).Round(time.Millisecond), context.DeadlineExceeded)
	}
	a.op = a.flight.op
	if !a.failed() && !a.conflict() { // the server may have tried a write again before it answered a conflict
		took := a.end.Sub(a.departed.awake)
		if a.writes() {
			c.readTook, c.writeTook = min(took, c.readTook), took
		} else {
			c.readTook, c.writeTook = took, max(took, c.writeTook)
		}
	}
	c.watchdog.expectLoop(time.Now())
	c.expectNext()
	return *a
}

// renewals turns the acquisitions under way into renewals of the term that one of them won.
func (c *requester) renewals() {
	for _, f := range c.flights {
		if f.acquires() {
			f.op = opRenew
		}
	}
}

// stopWaiting stops waiting for the last request, because its answer is known already.
func (c *requester) stopWaiting() { c.newest = nil }

// supersede notes the newest version of the record. A write that was to replace an older one is
// lost, and nothing waits for its answer. A creation may still land, if somebody deletes the
// record first, so only a release waits for that. The version of a record that is kept says nothing
// about its last write.
func (c *requester) supersede(newest locks.Snapshot) {
	for _, f := range c.flights {
		if f.writes() && f.isSuperseded(newest) {
			f.lost = true
		}
	}
	if f := c.newest; f != nil && (f.lost || f.writes() && !f.base.Exists() && newest.Version.Exists()) {
		c.newest = nil
	}
}

// isSuperseded reports whether a write that replaces a version can no longer land.
func (r request) isSuperseded(newest locks.Snapshot) bool {
	return r.base.Exists() && !newest.Kept && r.base.Number < newest.Version.Number
}

// waitAgain waits for the answer to the last write again after a read has shown that it has not
// landed, unless it is to be repeated: at once if it has been under way for that patience and
// repeats no other, because its connection may be dead. Each further repetition waits twice as
// long. The server is slow to write then, and repetitions make it slower.
func (c *requester) waitAgain(shown locks.Snapshot, patience time.Duration, now time.Time) {
	for _, f := range slices.Backward(c.flights) {
		if !f.writes() || f.lost {
			continue
		}
		same := f.base.Exists() == shown.Version.Exists() && (!f.base.Exists() || f.base.Number == shown.Version.Number)
		if at, known := f.departed(); same && (!known || now.Before(at.awake.Add(patience<<min(c.repetitions(), 4)))) {
			f.asked, c.newest = now, f
		}
		return
	}
}

// repetitions is how many writes that may still land repeat another one.
func (c *requester) repetitions() (n int) {
	for _, f := range c.flights {
		if f.writes() && !f.lost {
			n++
		}
	}
	return max(0, n-1)
}

// stopWaitingForRead stops waiting for the last request if it is a read.
func (c *requester) stopWaitingForRead() {
	if c.newest != nil && !c.newest.writes() {
		c.newest = nil
	}
}

// expectNext tells the loopWatchdog by when the next request must be over.
func (c *requester) expectNext() {
	if len(c.flights) == 0 {
		c.watchdog.expectAnswer("", time.Time{})
		return
	}
	first := slices.MinFunc(c.flights, func(a, b *flight) int { return a.end().Compare(b.end()) })
	c.watchdog.expectAnswer(first.op, first.end())
}

// end is when a request is over at the latest.
func (f *flight) end() time.Time { return f.sent.awake.Add(f.limit) }

// dialAndAnswer limits a request that may have to wait for a dial: the dial and the answer
// get a RenewDeadline each. Ending the request sooner would cost the connection, which is
// all that the next request could use.
func dialAndAnswer(t Timing) time.Duration { return 2 * t.RenewDeadline }

// patience is how long a request may go without an answer before another one overtakes it:
// half as long again as the last answer took, so that a slow server is not asked twice. Writes
// may be slow where reads are fast.
func (c *requester) patience(t Timing, writes bool) time.Duration {
	took := c.readTook
	if writes {
		took = c.writeTook
	}
	return max(t.AttemptTimeout, min(took*3/2, max(took*9/8, t.RenewDeadline/2)))
}

// cancel ends all requests that are under way. A write may have landed.
func (c *requester) cancel() {
	for _, f := range c.flights {
		f.cancel()
	}
}

// drain waits until no write is under way that may land, and returns the answers to the
// writes. It does not wait for reads, nor for writes that are lost or that the lock holds back.
// It cancels writes that take longer than patience: whether they landed is then unknown. It gives
// up on a lock that does not obey its context, and reports whether all is settled.
func (c *requester) drain(patience time.Duration) (writes []answer, settled bool) {
	for _, f := range c.flights {
		if !f.writes() || f.lost || f.held() {
			f.cancel()
		}
	}
	c.watchdog.expectLoop(time.Now().Add(2 * patience))
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for late := false; len(c.flights) > 0; {
		select {
		case a := <-c.answers:
			if a := c.received(a); a.writes() {
				writes = append(writes, a)
			}
		case <-timer.C:
			if late {
				return writes, false
			}
			late = true
			c.cancel()
			timer.Reset(patience)
		}
	}
	return writes, true
}

// call makes the request and waits for its answer. Other answers that come before go to other.
func (c *requester) call(ctx context.Context, r request, other func(answer)) (answer, bool) {
	c.send(ctx, r)
	own := c.newest
	c.watchdog.expectLoop(time.Now().Add(2 * r.limit))
	timer := time.NewTimer(2 * r.limit)
	defer timer.Stop()
	for {
		select {
		case came := <-c.answers:
			a := c.received(came)
			if a.flight == own {
				return a, true
			}
			other(a)
		case <-timer.C:
			return answer{}, false
		}
	}
}
