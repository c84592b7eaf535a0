// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/zonelect/zonelect/internal/apitest"
)

const (
	mostFronts = 3  // API servers over one store
	few        = 20 // changes: what a cache that goes back is behind at most
)

// onCaches are the faults of the watch caches of API servers.
var onCaches = []fault{stall, stall, trail, revert, revert}

// fronts are the API servers over one store. Each has a watch cache of its own.
type fronts struct {
	all []*apitest.Front

	mu     sync.Mutex
	faults [mostFronts]int // counts those of each
}

func newFronts(w *world, store *apitest.Server) *fronts {
	dice := rand.New(rand.NewPCG(w.seed, 4))
	f := &fronts{}
	for range mostFronts {
		front := store.NewFront()
		front.Waits = dice.IntN(2) == 0
		f.all = append(f.all, front)
	}
	return f
}

// harm makes the cache of one server fail for a while, or until its next fault.
func (f *fronts) harm(s step) {
	f.mu.Lock()
	defer f.mu.Unlock()
	degree := int(s.degree / time.Millisecond)
	n := degree % mostFronts
	switch s.fault {
	case stall:
		f.all[n].Lag(apitest.Still)
	case trail:
		f.all[n].Lag(s.degree)
	case revert:
		f.all[n].Restart(degree / mostFronts % few)
	}
	f.faults[n]++
	fault := f.faults[n]
	time.AfterFunc(s.lasts, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.faults[n] == fault {
			f.all[n].Lag(0)
		}
	})
}

// mend makes all caches show all.
func (f *fronts) mend() {
	for _, front := range f.all {
		front.Lag(0)
	}
}
