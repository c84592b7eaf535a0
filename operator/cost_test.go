// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/zonelect/zonelect/election"
)

var manyLocks = flag.Int("locks", 100, "how many locks the processes of the test of costs have")

// inUse returns the goroutines and the heap in use.
func inUse() (goroutines int, heap uint64) {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), m.HeapAlloc + m.StackInuse
}

// settled returns the same once the tokens of n locks are written and their requests have ended:
// the least of many looks, because renewals come and go.
func settled(n int) (goroutines int, heap uint64) {
	for i := range 5 + n/20 {
		time.Sleep(time.Second)
		if g, h := inUse(); i == 0 || h < heap {
			goroutines, heap = g, h
		}
	}
	return goroutines, heap
}

// TestALockCostsTwoGoroutinesAndFewKilobytes prints what one lock more costs a process that leads
// it, and one that follows. The memory includes what the API server in memory keeps. The limits
// leave room for renewals that are under way.
func TestALockCostsTwoGoroutinesAndFewKilobytes(t *testing.T) {
	if testing.Short() {
		t.Skip("it sleeps for 30 s of real time")
	}
	_, o := inPod(t)
	o.Logger = logr.FromSlogHandler(slog.DiscardHandler)
	start := func(id string, n int, leads *atomic.Int64) (end func()) {
		o.Self.Identity, o.Self.PodName = id, "pod-"+id
		s, err := NewGroup(t.Context(), "my-operator", o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		var running sync.WaitGroup
		for i := range n {
			running.Go(func() {
				_ = s.Run(ctx, fmt.Sprintf("lock-%d", i), func(ctx context.Context, _ election.Term) error {
					leads.Add(1)
					<-ctx.Done()
					return nil
				})
			})
		}
		return func() { stop(); running.Wait() }
	}
	n := *manyLocks
	var led, followed atomic.Int64
	bare := start("bare", 1, &led)
	waitFor(t, &led, 1)
	time.Sleep(time.Second)
	goroutines, heap := inUse()
	report := func(what string, before int, was uint64) (int, uint64) {
		now, is := settled(n)
		t.Logf("%s: %.2f goroutines and %.1f KB a lock of %d", what, float64(now-before)/float64(n), float64(int64(is)-int64(was))/float64(n)/1000, n)
		return now, is
	}
	bare()
	led.Store(0)
	endA := start("a", n, &led)
	waitFor(t, &led, int64(n))
	afterA, heapA := report("led, with what the API server in memory keeps", goroutines, heap)
	endB := start("b", n, &followed)
	afterB, heapB := report("followed", afterA, heapA)
	if led, followed := afterA-goroutines, afterB-afterA; led > 3*n+50 || followed > 3*n+50 {
		t.Errorf("%d locks cost %d goroutines where they are led, and %d where they are followed", n, led, followed)
	}
	if most := heap + uint64(2*(n*60_000+1_000_000)); heapB > most {
		t.Errorf("%d locks in two processes use %d KB, want %d at most", n, (heapB-heap)/1000, (most-heap)/1000)
	}
	if followed.Load() > 0 {
		t.Error("two lead")
	}
	endB()
	endA()
	report("what the API server keeps when all have ended", goroutines, heap)
}

func waitFor(t *testing.T, n *atomic.Int64, want int64) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); n.Load() < want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%d of %d lead", n.Load(), want)
		}
	}
}
