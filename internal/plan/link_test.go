// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/zonelect/zonelect/internal/live"
	"github.com/zonelect/zonelect/locks"
)

// link is a candidate's connection to a lock, with the cost of a network: half a round trip
// each way, two more to open a connection, a while for each lost dial. Connections close when
// idle for long, as those to the API do.
type link struct {
	locks.Lock
	trip time.Duration

	mu     sync.Mutex
	down   bool            // nothing passes
	refuse bool            // while down: requests fail at once, instead of hanging
	dials  time.Duration   // the cost of lost dials for each new connection
	alive  chan struct{}   // closed when all that is open now dies
	conn   <-chan struct{} // the same, of the connection for requests; nil for none
	used   time.Time
	asked  time.Time // when the last request was sent
	wrote  time.Time // when the last write was
}

var errRefused = errors.New("connection refused")

func newLink(lock locks.Lock, trip time.Duration) *link {
	return &link{Lock: lock, trip: trip, alive: make(chan struct{})}
}

// set changes the state of the network. Anything on its way is lost if it goes down.
func (l *link) set(change func(*link)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
}

// sever kills the open connections: their requests hang until their end, without notice.
func (l *link) sever() {
	l.set(func(l *link) { close(l.alive); l.alive = make(chan struct{}) })
}

// dial opens a connection.
func (l *link) dial(ctx context.Context) (<-chan struct{}, error) {
	l.mu.Lock()
	refused, alive, cost := l.down && l.refuse, l.alive, 2*l.trip+l.dials
	l.mu.Unlock()
	if refused {
		return nil, errRefused
	}
	return alive, l.pass(ctx, alive, cost)
}

// connect returns the connection for requests.
func (l *link) connect(ctx context.Context) (<-chan struct{}, error) {
	l.mu.Lock()
	conn := l.conn
	if since, wants := live.Wanted(ctx); time.Since(l.used) > 90*time.Second || wants && l.used.Before(since) || l.down && l.refuse {
		conn = nil
	}
	l.mu.Unlock()
	if conn != nil {
		return conn, nil
	}
	return l.dial(ctx)
}

// pass takes the time on a connection. It never ends on a dead connection, or if the network
// is down at its beginning or its end.
func (l *link) pass(ctx context.Context, conn <-chan struct{}, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	if l.lost(conn) {
		timer.Stop()
	}
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	if l.lost(conn) {
		<-ctx.Done()
	}
	return ctx.Err()
}

// lost reports whether anything on a connection now fails to arrive.
func (l *link) lost(conn <-chan struct{}) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-conn:
		return true
	default:
		return l.down
	}
}

// request makes a request; one that fails takes its connection with it.
func (l *link) request(ctx context.Context, do func() (locks.Snapshot, error)) (locks.Snapshot, error) {
	l.set(func(l *link) { l.asked = time.Now() })
	conn, err := l.connect(ctx)
	if err == nil {
		err = l.pass(ctx, conn, l.trip/2)
	}
	var s locks.Snapshot
	var answer error
	if err == nil {
		s, answer = do()
		err = l.pass(ctx, conn, l.trip/2)
	}
	if err != nil {
		l.set(func(l *link) { l.conn = nil })
		return locks.Snapshot{}, err
	}
	l.set(func(l *link) { l.conn, l.used = conn, time.Now() })
	return s, answer
}

func (l *link) Read(ctx context.Context) (locks.Snapshot, error) {
	return l.request(ctx, func() (locks.Snapshot, error) { return l.Lock.Read(ctx) })
}

func (l *link) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	l.set(func(l *link) { l.wrote = time.Now() })
	return l.request(ctx, func() (locks.Snapshot, error) { return l.Lock.Write(ctx, base, r) })
}

func (l *link) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	conn, err := l.dial(ctx)
	if err != nil {
		return err
	}
	if l.pass(ctx, conn, l.trip/2) != nil {
		return nil
	}
	inner, end := context.WithCancel(ctx)
	defer end()
	between, ended := make(chan locks.Event), make(chan error, 1)
	go func() { ended <- l.Lock.Watch(inner, from, between) }()
	for {
		select {
		case e := <-between:
			if l.pass(ctx, conn, l.trip/2) != nil {
				return nil
			}
			select {
			case events <- e:
			case <-ctx.Done():
				return nil
			}
		case err := <-ended:
			return err
		}
	}
}
