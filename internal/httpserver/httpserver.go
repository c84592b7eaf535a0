// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package httpserver bounds what the clients of an HTTP server can cost the process that serves.
// Such a process may lead: if strangers took all of its file descriptors, it could not renew its
// lease.
package httpserver

import (
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// The bounds.
const (
	askWithin    = 5 * time.Second  // from the first byte, or the connection, to the end of the headers
	sendWithin   = 10 * time.Second // the same to the end of the body
	AnswerWithin = 30 * time.Second // from the end of the headers to the end of the answer
	idleWithin   = 90 * time.Second // longer than Prometheus' usual interval
	mostHeaders  = 16 << 10
	mostOpen     = 100 // connections
)

// New returns a server within these bounds. A handler that needs longer than AnswerWithin sets its
// deadline itself, by http.ResponseController.
//
// If there are too many connections, the one closes that has done nothing for longest. So clients
// that keep theirs do not keep others out.
func New(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: askWithin, ReadTimeout: sendWithin, WriteTimeout: AnswerWithin,
		IdleTimeout: idleWithin, MaxHeaderBytes: mostHeaders, ConnState: new(open).changed,
	}
}

// open are the open connections, those first that have been in their state for longest.
type open struct {
	mu  sync.Mutex
	all []net.Conn
}

// changed notes a connection's new state, and closes another if there are too many.
func (o *open) changed(c net.Conn, state http.ConnState) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = slices.DeleteFunc(o.all, func(other net.Conn) bool { return other == c })
	if state == http.StateClosed || state == http.StateHijacked {
		return
	}
	o.all = append(o.all, c)
	if len(o.all) > mostOpen {
		_ = o.all[0].Close() // whoever serves it gets the error
		o.all = slices.Delete(o.all, 0, 1)
	}
}
