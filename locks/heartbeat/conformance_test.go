// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

const all = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/"

func TestALockSaysUnderWhichNameItsCandidatesAre(t *testing.T) {
	alone, shared := &Lock{name: "lock"}, &Lock{name: "lock", Config: Config{Shared: "program"}}
	if alone.Crowd() != "lock" || shared.Crowd() != "program" {
		t.Errorf("they are under %q and %q, want lock and program", alone.Crowd(), shared.Crowd())
	}
}

func TestALockWithoutAHeartHoldsTheLawsOfEveryLock(t *testing.T) {
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
			lock, err := Config{Client: client, Namespace: "ns", View: view, Writes: NewWrites(4)}.New("lock")
			if err != nil {
				t.Fatal(err)
			}
			servers[lock] = server
			return lock
		},
		Delete: func(_ *testing.T, l locks.Lock) { servers[l].Delete(all + "lock") },
	})
}
