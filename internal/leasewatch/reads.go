// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package leasewatch

import (
	"context"
	"sync"
	"time"

	"github.com/zonelect/zonelect/internal/live"
	"github.com/zonelect/zonelect/internal/sleep"
)

// Reading is all Leases at one version.
type Reading struct {
	at uint64
	kept
}

// Get returns the state of a Lease in the reading.
func (r *Reading) Get(name string) State {
	if s, known := r.leases[name]; known {
		return s
	}
	return State{Number: r.at}
}

// At is the version of the reading.
func (r *Reading) At() uint64 { return r.at }

// Read returns all Leases by a linearizable list that began after the call. Of those that are
// not named here, some may be cut. Calls that come while another list is under way share the
// next one, which waits for that as long as the patience at most.
func (v *View) Read(ctx context.Context, names ...string) (*Reading, error) {
	before := v.At()
	v.mu.Lock()
	for _, name := range names {
		v.ask(name)
	}
	v.mu.Unlock()
	r, err := v.reads.read(ctx)
	if err == nil && r.at < before {
		v.WentBack()
	}
	return r, err
}

// GetSince is Get if the reading is not older than a version.
func (r *Reading) GetSince(name string, version uint64) (State, bool) {
	return r.Get(name), r.at >= version
}

// listBurst is how many lists may begin within half a patience. Each shows all Leases: if every
// lock reads at a moment of its own, as when a heartbeat is late, they share these.
const listBurst = 4

// gathering is how long a list that follows another soon waits for those that read at the same
// moment. It is less than a caller notices, who measures how long a read takes.
const gathering = 10 * time.Millisecond

// reads shares lists.
type reads struct {
	list     func(ctx context.Context) (*Reading, error)
	patience time.Duration
	misses   func() (answered func()) // called before a list on a fresh connection

	mu   sync.Mutex
	next *read            // not begun
	took [2]time.Duration // by the last lists, the newest last
	last chan struct{}    // closed when the read that began last is over; nil before the first
	// began is when the last lists began, oldest first.
	began [listBurst]time.Time
}

// read is one list, and those that wait for it.
type read struct {
	ctx       context.Context
	cancel    context.CancelFunc
	readers   int
	fresh     bool // on a connection that was alive after since
	since     time.Time
	done      chan struct{}
	reading   *Reading
	listError error
}

func (r *reads) read(ctx context.Context) (*Reading, error) {
	r.mu.Lock()
	one := r.next
	if one == nil {
		one = &read{done: make(chan struct{})}
		one.ctx, one.cancel = context.WithCancel(context.WithoutCancel(ctx))
		r.next = one
		go r.begin(one, r.last)
	}
	one.readers++
	if since, wants := live.Wanted(ctx); wants && since.After(one.since) || wants && !one.fresh {
		one.fresh, one.since = true, since
	}
	r.mu.Unlock()
	select {
	case <-one.done:
		return one.reading, one.listError
	case <-ctx.Done():
		r.leave(one)
		return nil, context.Cause(ctx)
	}
}

// leave ends a list that nobody waits for.
func (r *reads) leave(one *read) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one.readers--; one.readers == 0 {
		one.cancel()
		if r.next == one {
			r.next = nil
		}
	}
}

// wait returns when the list before is over, or has taken too long, and there have not been too
// many of late.
func (r *reads) wait(ctx context.Context, before chan struct{}) {
	if before != nil {
		late := time.NewTimer(r.patience)
		defer late.Stop()
		select {
		case <-before:
		case <-late.C:
		case <-ctx.Done():
		}
	}
	r.mu.Lock()
	again, last := r.began[0].Add(r.patience/2), r.began[listBurst-1]
	r.mu.Unlock()
	if now := time.Now(); now.Sub(last) < r.patience/2 && again.Before(now.Add(gathering)) {
		again = now.Add(gathering) // who reads at the same moment shares this one
	}
	_ = sleep.For(ctx, time.Until(again))
}

// begin makes one list.
func (r *reads) begin(one *read, before chan struct{}) {
	defer one.cancel()
	r.wait(one.ctx, before)
	r.mu.Lock()
	copy(r.began[:], r.began[1:])
	r.began[listBurst-1] = time.Now()
	if r.next == one {
		r.next = nil
	}
	r.last = one.done
	ctx := one.ctx
	if one.fresh {
		ctx = live.Since(ctx, one.since)
	}
	r.mu.Unlock()
	if one.fresh && r.prompt() {
		defer r.misses()()
	}
	sent := time.Now()
	list, err := r.list(ctx)
	if err == nil {
		r.measure(time.Since(sent))
		one.reading = list
	}
	one.listError = err
	close(one.done)
}

// measure notes how long a list took.
func (r *reads) measure(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took = [2]time.Duration{r.took[1], took}
}

// prompt reports whether the server answers within the patience, as far as is known. One list
// may have waited for an election of etcd.
func (r *reads) prompt() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return min(r.took[0], r.took[1]) <= r.patience
}
