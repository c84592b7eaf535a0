// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/zonelect/zonelect/internal/sleep"
)

// line makes the connections to one address, at any of the servers behind it. Dials compete:
// the first starts at once, another when that is slow. A dial belongs to no request. It goes
// on when the request that it was made for has ended, or has got another connection, and the
// next request gets its connection. A slow server is not a dead one, and more handshakes
// would only make it slower, so that few are under way at a time.
//
// A dial to which no kernel answers is given up soon. A dial whose handshake is slow goes on,
// while the youngest dial to that server gives way to a new one, each time after twice as long.
// A server that refuses rests a little longer each time, as long as another dial may bring a
// connection. Safe for concurrent use.
type line struct {
	options Options
	servers []server
	open    dialFunc

	mu      sync.Mutex
	waiting []*waiter // served in the order in which they came
	dials   []*dial   // under way, oldest first
	spare   []spare
	changed chan struct{} // closed when a dial ends, or a departing waiter leaves a spare connection
	started int           // dials so far
	last    time.Time     // when the last one started
	tries   []int         // dials to each server since one brought a connection
	errs    []error       // the last error of each server
	refused []int         // how often each server has refused
	rests   []time.Time   // when a server that refused may be dialed again
	unwell  []time.Time   // when each server last refused a request; zero if that was not noted
	next    time.Duration // from one dial to the next that competes with it
	connect time.Duration // how long a kernel may take to answer
	give    time.Duration // when a slow dial makes room for another
}

// dialFunc makes one connection to a server: raw, and then usable.
type dialFunc struct {
	raw    func(ctx context.Context, to server) (net.Conn, error)
	secure func(ctx context.Context, raw net.Conn, to server) (net.Conn, error)
}

// waiter is a request that waits for a connection on which the server was heard since a time.
type waiter struct{ since time.Time }

// dial is a dial under way.
type dial struct {
	server int
	start  time.Time
	cancel context.CancelCauseFunc
}

// spare is a connection that no request waits for now.
type spare struct {
	conn  net.Conn
	since time.Time // the server was heard then
}

// errNobody is the cause of giving up when no server answers.
var errNobody error = timeoutError{}

// timeoutError is recognized as a deadline that has passed.
type timeoutError struct{}

func (timeoutError) Error() string        { return "timed out" }
func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// errSlow is the cause for which a dial is given up: not a refusal.
var errSlow = errors.New("gave way to another dial")

func newLine(o Options, servers []server, open dialFunc) *line {
	l := &line{options: o, servers: servers, open: open, changed: make(chan struct{}),
		tries: make([]int, len(servers)), errs: make([]error, len(servers)), refused: make([]int, len(servers)), rests: make([]time.Time, len(servers)), unwell: make([]time.Time, len(servers))}
	l.reset(0, 0)
	return l
}

// reset sets all time limits again from how long a dial took.
func (l *line) reset(connected, usable time.Duration) {
	o := l.options
	l.next = min(max(o.DialInterval, usable*3/2), max(o.DialInterval, o.AttemptTimeout/2))
	l.connect = min(max(2*o.DialInterval, connected*3), o.Patience)
	l.give = min(max(o.AttemptTimeout/2, usable*2), o.Patience)
}

// get returns a connection on which the server was heard since that time. It fails when ctx
// ends, when every server has refused and no dial is under way, or when no server has
// answered for all of Patience.
func (l *line) get(ctx context.Context, since time.Time) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.options.Patience, errNobody)
	defer cancel()
	me := &waiter{since}
	l.mu.Lock()
	l.waiting = append(l.waiting, me)
	defer func() {
		l.waiting = slices.DeleteFunc(l.waiting, func(w *waiter) bool { return w == me })
		if len(l.spare) > 0 { // the next waiter may have it now
			l.wake()
		}
		l.mu.Unlock()
	}()
	before := slices.Clone(l.refused)
	for {
		if ctx.Err() != nil { // also at first: http.Transport asks for requests that have ended
			return nil, errors.Join(append(slices.Clone(l.errs), fmt.Errorf("no connection after %d dials: %w", l.started, context.Cause(ctx)))...)
		}
		if conn := l.take(me); conn != nil {
			return conn, nil
		}
		if err := l.refusal(before); err != nil {
			return nil, err
		}
		alarm, stop := sleep.After(l.launch(ctx, time.Now()))
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-alarm:
		case <-ctx.Done():
		}
		stop()
		l.mu.Lock()
	}
}

// take takes a spare connection that is young enough, and that no earlier waiter could use.
func (l *line) take(me *waiter) net.Conn {
	for i, s := range l.spare {
		first := slices.IndexFunc(l.waiting, func(w *waiter) bool { return !s.since.Before(w.since) })
		if first >= 0 && l.waiting[first] == me {
			l.spare = slices.Delete(l.spare, i, i+1)
			return s.conn
		}
	}
	return nil
}

// refusal is an error once every server has refused since before, and no dial is under way.
func (l *line) refusal(before []int) error {
	for i := range before {
		if l.refused[i] == before[i] {
			return nil
		}
	}
	if len(l.dials) > 0 {
		return nil
	}
	return errors.Join(l.errs...)
}

// launch starts the dials that are due, and returns when to look again. Each waiter may have
// one at once; an additional dial competes after a while.
func (l *line) launch(ctx context.Context, now time.Time) time.Duration {
	for {
		if len(l.dials) >= len(l.waiting) {
			if due := l.last.Add(l.next); now.Before(due) {
				return due.Sub(now)
			}
		}
		to, ok, rested := l.way(now)
		if !ok {
			return min(rested, l.yield(now))
		}
		l.start(ctx, to, now)
	}
}

// way is the server to dial next: of those that were tried least, and have room, the nearest that
// has refused no request for a Patience, or else the one whose refusal is the longest ago. A server
// that refused a dial rests first, while a dial is under way. If there is none to dial, way returns
// when one will have rested.
func (l *line) way(now time.Time) (to int, ok bool, rested time.Duration) {
	rested = l.options.Patience
	for i, tries := range l.tries {
		switch rests := l.rests[i].Sub(now); {
		case l.underWay(i) == mostDials:
		case len(l.dials) > 0 && rests > 0:
			rested = min(rested, rests)
		case !ok || tries < l.tries[to] || tries == l.tries[to] && l.refusedAt(i, now).Before(l.refusedAt(to, now)):
			to, ok = i, true
		}
	}
	return to, ok, rested
}

// refusedAt is when a server last refused a request; zero if that was a Patience ago.
func (l *line) refusedAt(i int, now time.Time) time.Time {
	if now.Sub(l.unwell[i]) >= l.options.Patience {
		return time.Time{}
	}
	return l.unwell[i]
}

// turnFrom notes that the server at addr refused a request.
func (l *line) turnFrom(addr string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, s := range l.servers {
		if s.addr == addr {
			l.unwell[i] = time.Now()
		}
	}
}

func (l *line) underWay(to int) (n int) {
	for _, d := range l.dials {
		if d.server == to {
			n++
		}
	}
	return n
}

// yield gives up the youngest dial to a server that has no room, if its time is up, in favor
// of another, which gets twice as much. It returns when to look again.
func (l *line) yield(now time.Time) time.Duration {
	i := len(l.dials) - 1
	for i >= 0 && l.underWay(l.dials[i].server) < mostDials {
		i--
	}
	if i < 0 {
		return l.options.Patience
	}
	youngest := l.dials[i]
	if left := youngest.start.Add(l.give).Sub(now); left > 0 {
		return left
	}
	youngest.cancel(errSlow)
	l.give = min(2*l.give, l.options.Patience)
	return l.give
}

// start starts a dial, which no request's context ends.
func (l *line) start(ctx context.Context, to int, now time.Time) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	d := &dial{server: to, start: now, cancel: cancel}
	l.dials = append(l.dials, d)
	l.tries[to]++
	l.started++
	l.last = now
	go l.run(ctx, d, l.connect)
}

// run makes one connection.
func (l *line) run(ctx context.Context, d *dial, connect time.Duration) {
	defer d.cancel(nil)
	to := l.servers[d.server]
	raw, err := l.raw(ctx, to, connect)
	connected := time.Now()
	conn := raw
	if err == nil && l.open.secure != nil {
		limited, cancel := context.WithTimeout(ctx, l.options.Patience)
		conn, err = l.open.secure(limited, raw, to)
		cancel()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dials = slices.DeleteFunc(l.dials, func(other *dial) bool { return other == d })
	if err == nil && errors.Is(context.Cause(ctx), errAborted) { // it is closed already, or was to be
		_ = conn.Close()
		err = errAborted
	}
	if err == nil {
		clear(l.tries)
		l.keep(conn)
		l.reset(connected.Sub(d.start), time.Since(d.start))
	} else {
		l.failed(d, err, context.Cause(ctx))
	}
	l.wake()
}

// wake makes all waiters look again. The caller holds mu.
func (l *line) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// raw connects, within the time that a kernel may take.
func (l *line) raw(ctx context.Context, to server, limit time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := l.open.raw(ctx, to)
	var timeout net.Error // comes from the same limit, perhaps before ctx says that it has ended
	if err != nil && (ctx.Err() != nil || errors.As(err, &timeout) && timeout.Timeout()) {
		err = fmt.Errorf("%w: %w", err, errSlow)
	}
	return conn, err
}

// failed notes why a dial failed. Silence is no refusal; it gives the next dial more time.
func (l *line) failed(d *dial, err, cause error) {
	l.errs[d.server] = err
	switch {
	case errors.Is(cause, errAborted):
		l.errs[d.server] = cause
		l.refused[d.server]++
	case errors.Is(cause, errSlow):
	case errors.Is(err, errSlow):
		l.connect = min(2*l.connect, max(l.options.AttemptTimeout, 2*l.options.DialInterval))
	case errors.Is(err, context.DeadlineExceeded):
	default:
		l.refused[d.server]++
		l.rests[d.server] = time.Now().Add(min(time.Duration(max(1, l.tries[d.server]))*l.options.DialInterval, l.options.AttemptTimeout))
		l.last = time.Time{} // the next server is asked at once
	}
}

// keep keeps a connection for the next request, for as long as a request waits before another
// overtakes it.
func (l *line) keep(conn net.Conn) {
	kept := spare{conn, time.Now()}
	l.spare = append(l.spare, kept)
	time.AfterFunc(l.options.AttemptTimeout, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if i := slices.Index(l.spare, kept); i >= 0 {
			l.spare = slices.Delete(l.spare, i, i+1)
			_ = conn.Close() // no request wanted it
		}
	})
}

// abort gives up all dials and closes the spare connections.
func (l *line) abort() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.dials {
		d.cancel(errAborted)
	}
	for _, s := range l.spare {
		_ = s.conn.Close() // no request waits for it
	}
	l.spare = nil
}
