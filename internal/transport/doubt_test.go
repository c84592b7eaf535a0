// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zonelect/zonelect/internal/transport/live"
)

// TestADoubtedConnectionIsKeptUntilTheServerIsHeardFromOnAnother, as while its name does not resolve. Only
// reads go on it meanwhile, and a write once one of them has been answered.
func TestADoubtedConnectionIsKeptUntilTheServerIsHeardFromOnAnother(t *testing.T) {
	for _, silent := range []bool{false, true} {
		var writes atomic.Int32
		var mute atomic.Value
		s := serve(t, true, 0, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut {
				writes.Add(1)
			}
			if r.RemoteAddr == mute.Load() {
				<-r.Context().Done()
				panic(http.ErrAbortHandler)
			}
			peer(w, r)
		})
		cfg := s.config()
		var gone atomic.Bool
		cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			switch {
			case gone.Load() && silent:
				<-ctx.Done()
				return nil, context.Cause(ctx)
			case gone.Load():
				return nil, errNoName
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
		tr := mustNew(t, cfg, Options{AttemptTimeout: 10 * time.Minute, Patience: 10 * time.Minute, DialInterval: 100 * time.Millisecond})
		kept := mustGet(t, t.Context(), tr, s.URL)
		gone.Store(true)
		doubted := time.Now()
		ctx, cancel := context.WithTimeout(live.Since(t.Context(), doubted), 20*time.Millisecond)
		if _, err := send(ctx, tr, http.MethodPut, s.URL); err == nil || writes.Load() > 0 {
			t.Errorf("silent %v: a write went on a doubted connection: %v", silent, err)
		}
		cancel()
		soon, end := context.WithTimeout(t.Context(), 30*time.Second) // which only a fault needs
		defer end()
		if got := mustGet(t, live.Since(soon, doubted), tr, s.URL); got != kept {
			t.Errorf("silent %v: a read went by %s, want %s", silent, got, kept)
		}
		got, err := send(live.Since(t.Context(), doubted), tr, http.MethodPut, s.URL)
		if err != nil || got != kept || writes.Load() != 1 {
			t.Errorf("silent %v: a write went by %s (%v) %d times, want once by %s", silent, got, err, writes.Load(), kept)
		}
		gone.Store(false)
		mute.Store(kept)
		fresh := mustGet(t, live.Since(t.Context(), time.Now()), tr, s.URL)
		if fresh == kept {
			t.Errorf("silent %v: a read that doubts went by %s again", silent, kept)
		}
		select {
		case <-s.ended:
		case <-soon.Done():
			t.Errorf("silent %v: the connection that was kept is open", silent)
		}
		if next := mustGet(t, t.Context(), tr, s.URL); next != fresh {
			t.Errorf("silent %v: the next read went by %s, want %s", silent, next, fresh)
		}
	}
}
