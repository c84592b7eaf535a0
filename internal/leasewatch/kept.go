// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package leasewatch

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	kubewatch "k8s.io/apimachinery/pkg/watch"

	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
)

// mostSpare is how many bytes, as JSON, are kept of Leases that nobody has asked for. Anybody
// who may create a Lease can make more of them. Somebody may ask for any of them next, and then
// needs no other list.
const mostSpare = 4 << 20

// askedFor is for how long a Lease is wanted after somebody has asked for it.
const askedFor = 10 * time.Minute

// wanted says which Leases are kept however long they are. Its owner guards it.
type wanted struct {
	// subs are the subscriptions to a Lease, by number: an order by address would differ from
	// run to run of the simulation.
	subs  map[string]map[uint64]*Subscription
	asked map[string]time.Time
	keeps func(*coordinationv1.Lease) bool
}

func newWanted() wanted {
	return wanted{
		subs: map[string]map[uint64]*Subscription{}, asked: map[string]time.Time{},
		keeps: func(*coordinationv1.Lease) bool { return false },
	}
}

// has reports whether somebody wants the Lease of a name.
func (w *wanted) has(name string) bool {
	_, asked := w.asked[name]
	return asked || len(w.subs[name]) > 0
}

// forget forgets what nobody has asked for of late.
func (w *wanted) forget(now time.Time) {
	for name, last := range w.asked {
		if now.Sub(last) > askedFor {
			delete(w.asked, name)
		}
	}
}

// kept is what is kept of Leases. Its owner guards it.
type kept struct {
	leases map[string]State // also of those that do not exist, if somebody has subscribed to them
	spare  map[string]int   // how long those are that nobody wanted
	size   int              // of them together
}

// put notes an event, or an object of a list, and returns the state that it leaves.
func (k *kept) put(e rawapi.Event[*coordinationv1.Lease], w *wanted) State {
	name := e.Object.Name
	k.drop(name)
	s := State{Number: record.Number(e.Object.ResourceVersion)}
	wants := w.has(name)
	switch {
	case e.Type == kubewatch.Deleted:
	case e.Cut:
		s.Cut, s.tooLong = true, wants
	case wants || w.keeps(e.Object):
		s.Lease = e.Object
	case k.size+e.Size <= mostSpare:
		if k.spare == nil {
			k.spare = map[string]int{}
		}
		s.Lease, k.spare[name] = e.Object, e.Size
		k.size += e.Size
	default:
		s.Cut = true
	}
	if s.Lease != nil {
		s.Lease.ManagedFields = nil
	}
	k.leases[name] = s
	return s
}

// drop forgets a Lease.
func (k *kept) drop(name string) {
	k.size -= k.spare[name]
	delete(k.spare, name)
	delete(k.leases, name)
}

// ask notes that somebody wants a Lease. The caller holds mu.
func (v *View) ask(name string) {
	v.asked[name] = time.Now()
	v.needs(name)
}

// needs begins another list if a Lease is cut that that would show, unless one is about to begin
// or under way: replace looks again. The caller holds mu.
func (v *View) needs(name string) {
	if s := v.leases[name]; s.Cut && !s.tooLong && !v.lacks {
		v.lacks = true
		v.renew()
	}
}

// remembered returns what the history keeps of a state. The caller holds mu.
func (v *View) remembered(name string, s State) State {
	if s.Lease != nil && !v.has(name) {
		return State{Number: s.Number, Cut: true}
	}
	return s
}

// wants reports whether a Lease is to be read however long it is.
func (v *View) wants(name string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.has(name)
}

// Keep has the view keep the Leases for which is returns true, although nobody asks for them
// by name. Call it before Run. is may not call the view.
func (v *View) Keep(is func(*coordinationv1.Lease) bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.keeps = is
}
