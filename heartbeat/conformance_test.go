// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/lockstest"
)

const all = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/"

// configOf is that of locks whose heartbeat never beats.
func configOf(t *testing.T, client rest.Interface, view *leasewatch.View) config {
	t.Helper()
	w := newWrites(4, 2*time.Second)
	h, err := newHeart(heartConfig{lease: lease.Config{Client: client, Namespace: "ns", Name: "heart"}, view: view, writes: w, identity: "a", timing: timing.Timing{Exclusive: true}.WithDefaults()})
	if err != nil {
		t.Fatal(err)
	}
	return config{client: client, namespace: "ns", view: view, heart: h, writes: w}
}

func TestALockWithoutAHeartbeatHoldsTheLawsOfEveryLock(t *testing.T) {
	servers := map[locks.Lock]*apitest.Server{}
	lockstest.RunSuite(t, lockstest.Suite{
		New: func(t *testing.T) locks.Lock {
			server := apitest.NewServer()
			client := apitest.Client(t, server, coordinationv1.SchemeGroupVersion)
			view, err := leasewatch.New(leasewatch.Config{Client: client, Namespace: "ns", Patience: 2 * time.Second, Limit: 10 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			over := make(chan struct{})
			go func() { defer close(over); view.Run(ctx) }()
			t.Cleanup(func() { cancel(); <-over })
			if !view.Reach(ctx, 1) { // else its first list may leave a change out
				t.Fatal("the view knows nothing")
			}
			lock, err := configOf(t, client, view).lock("lock")
			if err != nil {
				t.Fatal(err)
			}
			servers[lock] = server
			return lock
		},
		Delete: func(_ *testing.T, l locks.Lock) { servers[l].Delete(all + "lock") },
	})
}
