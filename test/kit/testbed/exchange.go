// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

// exchange is a set of TCP relays on loopback with a valve for each direction
// between two places. Its methods are safe for concurrent use.
type exchange struct {
	ctx    context.Context // ends with close
	cancel context.CancelFunc
	wg     sync.WaitGroup // accept loops and relays

	mu        sync.Mutex
	valves    map[pair]*valve
	listeners []*net.TCPListener
}

// target is where a relay leads a connection.
type target struct {
	to   string // zone
	addr string // HOST:PORT
	// greeting is sent back to the client once the target is connected.
	greeting string
}

// chooser decides where a new connection goes. It may read from it.
type chooser func(*net.TCPConn) (target, error)

// newExchange returns an exchange without relays.
func newExchange() *exchange {
	ctx, cancel := context.WithCancel(context.Background())
	return &exchange{ctx: ctx, cancel: cancel, valves: map[pair]*valve{}}
}

// valve returns the valve of one direction.
func (e *exchange) valve(p pair) *valve {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.valves[p] == nil {
		e.valves[p] = newValve()
	}
	return e.valves[p]
}

// serve relays for clients in zone from, and returns the address to connect to.
func (e *exchange) serve(from string, choose chooser) (string, error) {
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return "", fmt.Errorf("listen for a link: %w", err)
	}
	e.mu.Lock()
	e.listeners = append(e.listeners, listener)
	e.mu.Unlock()
	e.wg.Go(func() { e.accept(listener, from, choose) })
	return listener.Addr().String(), nil
}

// accept takes connections until the exchange closes.
func (e *exchange) accept(listener *net.TCPListener, from string, choose chooser) {
	for {
		near, err := listener.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			e.wg.Go(func() { e.lead(near, from, choose) })
		}
	}
}

// lead brings one connection to its target. Where the way is cut it waits, and
// the client hears nothing.
func (e *exchange) lead(near *net.TCPConn, from string, choose chooser) {
	stop := context.AfterFunc(e.ctx, func() { abort(near) })
	defer stop()
	far, goal, err := e.connect(near, from, choose)
	if err != nil {
		abort(near)
		return
	}
	there, back := e.valve(pair{from, goal.to}), e.valve(pair{goal.to, from})
	if _, err := near.Write([]byte(goal.greeting)); err != nil {
		abort(near)
		abort(far)
		return
	}
	relay(e.ctx, near, far, there, back)
}

// connect finds the target of a connection and dials it once the way is open.
func (e *exchange) connect(near *net.TCPConn, from string, choose chooser) (*net.TCPConn, target, error) {
	goal, err := choose(near)
	if err != nil {
		return nil, goal, err
	}
	for _, v := range []*valve{e.valve(pair{from, goal.to}), e.valve(pair{goal.to, from})} {
		if err := v.wait(e.ctx); err != nil {
			return nil, goal, err
		}
	}
	conn, err := new(net.Dialer).DialContext(e.ctx, "tcp", goal.addr)
	if err != nil {
		return nil, goal, fmt.Errorf("dial %s in zone %s: %w", goal.addr, goal.to, err)
	}
	return conn.(*net.TCPConn), goal, nil
}

// close ends all relays and waits for them.
func (e *exchange) close() {
	e.cancel()
	e.mu.Lock()
	for _, listener := range e.listeners {
		listener.Close()
	}
	e.mu.Unlock()
	e.wg.Wait()
}
