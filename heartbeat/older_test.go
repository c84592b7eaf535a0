// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/locks"
)

// TestS3AnOlderListChangesNothingThatIsKnown: an API server does not know any more what came after
// the version up to which a view knows all, and another one lists, whose cache is behind. What it
// shows is no news, and the first thing that is sent is what comes next.
func TestS3AnOlderListChangesNothingThatIsKnown(t *testing.T) {
	for what, shown := range map[string]int{"of some renewals ago": 2, "from before the lock was there": 0} {
		synctest.Test(t, func(t *testing.T) {
			server := apitest.NewServer()
			one, other := server.NewFront(), server.NewFront()
			var moves, moved atomic.Bool
			client := apitest.Wire(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if moves.Load() && r.URL.Query().Get("watch") != "true" {
					moved.Store(true)
				}
				if moved.Load() {
					other.ServeHTTP(w, r)
				} else {
					one.ServeHTTP(w, r)
				}
			}), coordinationv1.SchemeGroupVersion)
			view, err := leasewatch.New(leasewatch.Config{Client: client, Namespace: "ns", Patience: time.Second, Limit: 10 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var over sync.WaitGroup
			over.Go(func() { view.Run(ctx) })
			defer over.Wait()
			defer cancel()
			lock, err := configOf(t, client, view).lock("lock")
			if err != nil {
				t.Fatal(err)
			}
			write := func(base locks.Snapshot) locks.Snapshot {
				elapse(time.Second)
				s, err := lock.Write(t.Context(), base.Version, locks.Record{Holder: "a", LeaseDuration: 15 * time.Second, AcquireTime: time.Now(), RenewTime: time.Now()})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			server.Put(all+"another", &coordinationv1.Lease{})
			var known locks.Snapshot
			for i := range 5 {
				if i == shown {
					other.Lag(apitest.Still)
				}
				if i == 3 {
					one.Lag(apitest.Still)
				}
				known = write(known)
			}
			before := view.At()
			moves.Store(true)
			one.Restart(0)
			elapse(5 * time.Second)
			if at := view.At(); at >= before {
				t.Fatalf("%s: the list is of version %d, after %d", what, at, before)
			}
			if _, is := view.GetSince("lock", known.Version.Number); is {
				t.Errorf("%s: it passes for the newest", what)
			}
			if read, err := lock.Read(t.Context()); err != nil || read.Version.Number != known.Version.Number {
				t.Errorf("%s: a read shows %d, %v", what, read.Version.Number, err)
			}
			feed := lock.follow(known.Version)
			defer feed.close()
			other.Lag(time.Second)
			next := write(known)
			elapse(10 * time.Second)
			events, err := feed.take()
			if err != nil || len(events) != 1 || events[0].Snapshot.Version.Number != next.Version.Number {
				t.Errorf("%s: %v, %v after version %d, want version %d", what, events, err, known.Version.Number, next.Version.Number)
			}
		})
	}
}
