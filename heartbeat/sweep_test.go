// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// The first renewal of a term writes the lock. As long as it is under way, an elector holds
// the lock, although none asks for a heartbeat.
func TestL6ALockIsNotDetachedWhileItsElectorWritesIt(t *testing.T) {
	scenario(t, func(w *world) {
		a, began := w.process("a", true), time.Now()
		a.link.intercept(func(r *http.Request) {
			if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/lock-0") && time.Since(began) < w.Timing.RenewDeadline {
				select {
				case <-time.After(7 * w.Timing.RenewInterval / 2):
				case <-r.Context().Done():
				}
			}
		}, nil)
		a.campaign(1)
		elapse(time.Minute)
		if n := len(w.history("lock-0").Terms()); n != 1 || a.leads() != 1 {
			t.Errorf("%d terms, and %d led, want one: while the lock was written, it was detached", n, a.leads())
		}
	})
}
