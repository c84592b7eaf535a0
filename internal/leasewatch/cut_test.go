// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package leasewatch

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/apitest"
)

// TestTheNextWatchComesSoonWhereConnectionsAreCutNowAndThen, as a proxy or a load balancer does.
func TestTheNextWatchComesSoonWhereConnectionsAreCutNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.NewServer()
		var ended time.Time
		var longest, blind time.Duration
		cuts := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("watch") != "true" {
				server.ServeHTTP(w, r)
				return
			}
			if !ended.IsZero() {
				longest = max(longest, time.Since(ended))
				blind += time.Since(ended)
			}
			ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
			defer cancel()
			server.ServeHTTP(w, r.WithContext(ctx))
			_, _ = w.Write([]byte(`{"type":"MODI`)) // in the middle of an event
			ended = time.Now()
		})
		view, err := New(Config{Client: apitest.Wire(t, cuts, coordinationv1.SchemeGroupVersion), Namespace: "ns", Patience: patience, Limit: 5 * patience})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var over sync.WaitGroup
		over.Go(func() { view.Run(ctx) })
		time.Sleep(4 * time.Hour)
		cancel()
		over.Wait()
		if longest > patience {
			t.Errorf("watches of a minute each: in four hours there was none for %v in all, and for %v at a time", blind, longest)
		}
	})
}
