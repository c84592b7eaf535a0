// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net/http"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// refuses reports whether an answer says that the server cannot serve now: it sheds load, or
// what is behind it fails. Another server may be well.
func refuses(status int) bool {
	return status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}

// refusals decides which refusals cost the connection that they come on. A server that sheds
// load would pay for each new handshake, and perhaps all servers refuse. So each time the next
// one is further away, until no server has refused for a while. Safe for concurrent use.
type refusals struct {
	quiet time.Duration // without a refusal: all is forgotten

	mu     sync.Mutex
	last   time.Time // the last refusal
	next   time.Time // no refusal costs a connection before that
	delays *backoff.ExponentialBackOff
}

// mostQuiets is how many times as long as quiet the longest delay is. With longer ones, refusals
// that go on for long, of whatever request, would keep a leader at the one server that is unwell.
// 500 candidates that all servers refuse cost these 17 handshakes a second.
const mostQuiets = 3

func newRefusals(o Options) *refusals {
	return &refusals{quiet: o.Patience, delays: backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(o.AttemptTimeout/2), backoff.WithMultiplier(2), backoff.WithMaxInterval(mostQuiets*o.Patience),
		backoff.WithMaxElapsedTime(0))}
}

// costs notes a refusal, and reports whether it costs the connection.
func (r *refusals) costs(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.last) > r.quiet {
		r.delays.Reset()
		r.next = now
	}
	r.last = now
	if now.Before(r.next) {
		return false
	}
	r.next = now.Add(r.delays.NextBackOff())
	return true
}
