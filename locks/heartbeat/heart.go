// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
)

// HeartConfig is the configuration of a [Heart].
type HeartConfig struct {
	// Lease is the Lease of the heartbeat. Its name must be new for each start of a process.
	// Its Client should have connections of its own: heartbeats share them only with the few
	// other writes of the Heart, for rules L6 and L8. Required.
	Lease lease.Config
	// View follows the Leases of the namespace. Required.
	View *leasewatch.View
	// Writes are the writes of the locks that the heartbeat keeps. Required.
	Writes *Writes
	// Identity is that of the candidate whose elector keeps the heartbeat. Required.
	Identity string
	// Timing is that of the elector that keeps the heartbeat, and of all locks. Its zero fields
	// have their defaults.
	Timing timing.Timing
}

// Heart is the lock whose elector keeps the heartbeat of a process: each renewal of that
// elector is a heartbeat, and each of its terms an epoch. Its methods are safe for concurrent
// use.
type Heart struct {
	lock   *lease.Lock
	config HeartConfig

	mu      sync.Mutex
	waiting []*renewal            // for the next heartbeat
	beats   []*beat               // sent, and not known to have landed, oldest first
	lease   *coordinationv1.Lease // as the last answer had it; nil before the first
	changed chan struct{}         // closed, and replaced, when lease changes
	beaten  time.Time             // when the last heartbeat was sent that landed
	newest  epoch                 // that was written last, whatever came of it
	begun   []epoch               // the last ones that were written first, oldest first
	kept    map[string]*kept      // by name: the locks that name this heartbeat

	leaving    []*leaving       // to be released by the next note
	left       map[string]*left // by name: released by a note, or to be
	noting     bool             // a note is being written
	freeing    bool             // releases that were noted are being written
	settling   bool             // all of them are to be
	background sync.WaitGroup   // what writes either
	noteAgain  time.Time        // no note before that; only the goroutine that writes notes uses it
	took       time.Duration    // how long the last heartbeat's answer took
	refused    bool             // a heartbeat has met a conflict, or will, and none has landed since
	madeAnew   int              // how often the Lease was another than before, because somebody deleted it
	uid        types.UID        // of the Lease that was seen last
}

// renewal is one lock's wait for a heartbeat.
type renewal struct {
	name     string // of the lock
	dispatch locks.Dispatch
	epoch    epoch
	landed   chan landed // gets one value
}

// landed is a heartbeat that landed, with the Leases as they were at that moment or later.
type landed struct {
	lease  *coordinationv1.Lease
	leases interface {
		GetSince(name string, version uint64) (leasewatch.State, bool)
	}
	err error
}

// holds reports whether a lock's Lease was still at the version was when the heartbeat had
// landed.
func (l landed) holds(was *state) bool {
	now, known := l.leases.GetSince(was.lease.Name, record.Number(l.lease.ResourceVersion))
	return known && now.Lease != nil && now.Lease.UID == was.lease.UID && now.Number == was.number()
}

// state is the heartbeat's Lease.
func (l landed) state() leasewatch.State {
	return leasewatch.State{Lease: l.lease, Number: record.Number(l.lease.ResourceVersion)}
}

// repeats reports whether a heartbeat has the time of the lock's own write. Others cannot tell
// the two apart, and count from their first sight of either.
func (l landed) repeats(was *state) bool {
	return record.Read(l.lease).RenewTime.Equal(record.Read(was.lease).RenewTime)
}

// beat is one heartbeat.
type beat struct {
	record   locks.Record
	sent     time.Time
	after    uint64 // the version of some change before it
	renewals []*renewal
	left     map[string]any // when it was sent, by the clock of each lock that it renews
}

var _ locks.Lock = (*Heart)(nil)

// NewHeart returns the Heart that c describes, or an error that lists everything that is
// wrong with c. It does no I/O.
func NewHeart(c HeartConfig) (*Heart, error) {
	c.Lease.Labels = maps.Clone(c.Lease.Labels)
	if c.Lease.Labels == nil {
		c.Lease.Labels = map[string]string{}
	}
	c.Lease.Labels[record.LabelRole] = record.RoleHeartbeat
	h := &Heart{changed: make(chan struct{}), kept: map[string]*kept{}, left: map[string]*left{}}
	if owners := c.Lease.Owners; owners != nil {
		c.Lease.Owners = func(ctx context.Context) []metav1.OwnerReference {
			if h.ownerless() {
				return nil
			}
			return owners(ctx)
		}
	}
	lock, err := lease.New(c.Lease)
	if c.View == nil || c.Writes == nil || c.Identity == "" {
		err = errors.Join(err, errors.New("it needs a View, Writes and an Identity"))
	}
	c.Timing = c.Timing.WithDefaults()
	err = errors.Join(err, c.Timing.Validate())
	if err != nil {
		return nil, fmt.Errorf("heartbeat: %w", err)
	}
	c.View.Keep(func(lease *coordinationv1.Lease) bool { // for sweep
		a, attached := attachmentOf(lease)
		return attached && a.name == c.Lease.Name
	})
	h.lock, h.config = lock, c
	return h, nil
}

// ownerless reports whether the Lease is to have no owner when it is made: something deletes it
// again and again, perhaps because of its owner.
func (h *Heart) ownerless() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.madeAnew > 0
}

// Describe returns the Lease's name. It does no I/O.
func (h *Heart) Describe() locks.Description { return h.lock.Describe() }

// CloseConnections closes every connection of the heartbeat, as package lease does.
func (h *Heart) CloseConnections() { h.lock.CloseConnections() }

// Read reads the Lease. It may show that a heartbeat landed whose answer was lost.
func (h *Heart) Read(ctx context.Context) (locks.Snapshot, error) {
	before := h.state().Number
	s, err := h.lock.Read(ctx)
	if err == nil && s.Version.Exists() && s.Version.Number < before {
		h.wentBack()
	}
	if err == nil {
		h.learn(ctx, s)
	}
	return s, err
}

// Watch follows the Lease in the View.
func (h *Heart) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	alone := func(lease *coordinationv1.Lease, _ leasewatch.State) locks.Snapshot { return record.Snapshot(lease) }
	return pass(ctx, newFeed(h.config.View, h.config.Lease.Name, from, alone), events)
}

// Write sends a heartbeat, or begins or ends an epoch. It does not resume an epoch that has
// ended: others may rely on that end already (L5). An elector would do so that puts its name
// back on an emptied record, or whose second acquisition has replaced its first.
func (h *Heart) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	if h.resumes(base, r) {
		return locks.Snapshot{}, fmt.Errorf("%v: this epoch of the heartbeat has ended: %w", h.Describe(), locks.ErrConflict)
	}
	h.depart(r)
	began := time.Now()
	s, err := h.lock.Write(ctx, base, r)
	h.answered(began, err)
	if err == nil {
		h.learn(ctx, s)
	}
	return s, err
}

// answered notes how long the answer to a heartbeat took, and whether it met a conflict.
func (h *Heart) answered(began time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.took = time.Since(began)
	h.refused = h.refused || errors.Is(err, locks.ErrConflict)
}

// mostBegun is how many epochs are remembered. An elector goes on with one that it has begun
// among its last few writes.
const mostBegun = 16

// resumes reports whether a write would go on with an epoch on a Lease that is not of that epoch
// any more. If not, the epoch is the newest.
func (h *Heart) resumes(base locks.Version, r locks.Record) bool {
	e := epochIn(r)
	if e == "" {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	was, _ := base.Opaque.(*coordinationv1.Lease)
	switch begun := slices.Contains(h.begun, e); {
	case !begun:
		h.begun = append(h.begun[max(0, len(h.begun)+1-mostBegun):], e)
	case was != nil && epochOf(was) != e:
		return true
	}
	h.newest = e
	return false
}

// mostBeats is how many heartbeats without an answer are kept. Those that wait for a
// heartbeat that is dropped wait for a later one.
const mostBeats = 16

// depart has those that wait for the next heartbeat join this one, just before it is sent.
func (h *Heart) depart(r locks.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := &beat{record: r, sent: time.Now(), after: h.config.View.At(), left: map[string]any{}}
	if r.Holder != "" {
		b.renewals, h.waiting = h.waiting, nil
	}
	for _, one := range b.renewals {
		one.dispatch.Sent()
	}
	for name, k := range h.kept {
		if k.clock != nil {
			b.left[name] = k.clock.Now()
		}
	}
	if h.beats = append(h.beats, b); len(h.beats) > mostBeats {
		h.beats[1].renewals = append(h.beats[0].renewals, h.beats[1].renewals...)
		h.beats = h.beats[1:]
	}
}

// unlike returns the time for a lock's own write that is sent now: t, unless a heartbeat that
// may be the last has the same. Others could not tell the write from that heartbeat, and would
// count from their first sight of either, while the holder counts from the later one. For the same
// reason a write of a term that goes on is later than those heartbeats: others would take an
// earlier one for a hand's, which renews nothing. An acquisition is unlike all before it anyway.
func (h *Heart) unlike(t time.Time, goesOn bool) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	used := map[int64]bool{}
	use := func(beat time.Time) {
		if used[beat.UnixMicro()] = true; goesOn && beat.After(t) {
			t = beat
		}
	}
	for _, b := range h.beats {
		use(b.record.RenewTime)
	}
	if h.lease != nil {
		use(record.Read(h.lease).RenewTime)
	}
	for used[t.UnixMicro()] {
		t = t.Add(time.Microsecond)
	}
	return t
}

// wentBack notes that the history of the Leases went back: a restored backup. The epoch goes
// on if its Lease does, but what was known of the locks counts for nothing.
func (h *Heart) wentBack() {
	h.config.View.WentBack()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lease = nil
	clear(h.left) // versions may be used again
}

// learn notes the Lease as an answer showed it. If that is the record of a heartbeat, the
// heartbeat has landed, and so those that had joined it or one before it are renewed.
func (h *Heart) learn(ctx context.Context, s locks.Snapshot) {
	now, _ := s.Version.Opaque.(*coordinationv1.Lease)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lease != nil && now != nil && h.lease.UID == now.UID && record.Number(now.ResourceVersion) < record.Number(h.lease.ResourceVersion) {
		return // a late answer
	}
	h.lease = now
	if now != nil && now.UID != h.uid {
		if h.uid != "" {
			h.madeAnew++
		}
		h.uid = now.UID
	}
	close(h.changed)
	h.changed = make(chan struct{})
	var renewed []*renewal
	i := slices.IndexFunc(h.beats, func(b *beat) bool { return s.Record.SameRenewal(b.record) })
	if i >= 0 && s.Version.Number <= h.beats[i].after {
		h.config.View.WentBack()
		clear(h.left)
	}
	if i >= 0 {
		h.beaten = h.beats[i].sent
		renewed = h.renewedBy(h.beats[i])
	}
	for _, b := range h.beats[:i+1] {
		renewed = append(renewed, b.renewals...)
	}
	h.beats = h.beats[i+1:]
	is := h.epochIn(now)
	h.failOthers(is)
	if len(renewed) > 0 {
		go h.confirm(context.WithoutCancel(ctx), now, renewed)
	}
	if i >= 0 {
		h.refused = false
	}
	if i >= 0 && is != "" {
		h.sweep(now)
		h.tidy(now)
	}
}

// renewedBy returns, and forgets, the renewals of all locks that a heartbeat renewed which has
// landed now. They count from when it was sent, whether they had joined it, had joined an earlier
// one that may not have landed, or were asked for later. Behind a slow server a later heartbeat
// would land too late for those. The caller holds mu.
func (h *Heart) renewedBy(b *beat) (renewed []*renewal) {
	serve := func(all []*renewal) []*renewal {
		return slices.DeleteFunc(all, func(one *renewal) bool {
			at, known := b.left[one.name]
			if known {
				one.dispatch.SentAt(at)
				renewed = append(renewed, one)
			}
			return known
		})
	}
	h.waiting = serve(h.waiting)
	for _, one := range h.beats {
		one.renewals = serve(one.renewals)
	}
	return renewed
}

// epochIn is this process's epoch by the Lease of its heartbeat; empty if it has none. An
// epoch that somebody's edit has made is none. The caller holds mu.
func (h *Heart) epochIn(lease *coordinationv1.Lease) epoch {
	if lease == nil || record.Read(lease).Holder != h.config.Identity || epochOf(lease) != h.newest {
		return ""
	}
	return h.newest
}

// failOthers ends the waits for a heartbeat of another epoch than is (L5). The caller holds
// mu.
func (h *Heart) failOthers(is epoch) {
	fail := func(all []*renewal) []*renewal {
		return slices.DeleteFunc(all, func(one *renewal) bool {
			over := one.epoch != is
			if over {
				one.landed <- landed{err: fmt.Errorf("the heartbeat is of another epoch: %w", locks.ErrConflict)}
			}
			return over
		})
	}
	h.waiting = fail(h.waiting)
	for _, b := range h.beats {
		b.renewals = fail(b.renewals)
	}
}

// confirm tells those that joined a heartbeat that it landed, once it is known how all Leases
// were then or later (L1).
func (h *Heart) confirm(ctx context.Context, lease *coordinationv1.Lease, renewed []*renewal) {
	ctx, cancel := context.WithTimeout(ctx, h.config.Timing.RenewDeadline)
	defer cancel()
	l := h.shown(ctx, lease)
	for _, one := range renewed {
		one.landed <- l
	}
}

// shown returns a write that has landed on the heartbeat's Lease, once it is known how all
// Leases were then or later: from the watch, or else from a list.
func (h *Heart) shown(ctx context.Context, lease *coordinationv1.Lease) landed {
	l := landed{lease: lease, leases: h.config.View}
	if !h.config.View.Reach(ctx, record.Number(lease.ResourceVersion)) {
		r, err := h.config.View.Read(ctx)
		if l.leases, l.err = r, err; err != nil {
			l.err = fmt.Errorf("the heartbeat landed, but it is not known whether the lock was still held: %w", err)
		}
	}
	return l
}

// renew waits for a heartbeat of the epoch that lands after the call, and returns it. It may have
// been sent before the call, see renewedBy.
func (h *Heart) renew(ctx context.Context, name string, a attachment) (landed, error) {
	one := &renewal{name: name, dispatch: locks.DispatchOf(ctx), epoch: a.epoch, landed: make(chan landed, 1)}
	one.dispatch.Held()
	h.mu.Lock()
	if h.lease == nil || h.lease.UID != a.uid || h.epochIn(h.lease) != a.epoch {
		h.mu.Unlock()
		return landed{}, fmt.Errorf("the heartbeat is of another epoch: %w", locks.ErrConflict)
	}
	h.waiting = append(h.waiting, one)
	k := h.keep(name)
	k.asks, k.clock = k.asks+1, one.dispatch
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		k.asks--
		k.asked = time.Now()
		h.forget(one)
	}()
	select {
	case l := <-one.landed:
		return l, l.err
	case <-ctx.Done():
		return landed{}, context.Cause(ctx)
	}
}

// forget removes a wait that is over. The caller holds mu.
func (h *Heart) forget(one *renewal) {
	is := func(r *renewal) bool { return r == one }
	h.waiting = slices.DeleteFunc(h.waiting, is)
	for _, b := range h.beats {
		b.renewals = slices.DeleteFunc(b.renewals, is)
	}
}

// owns reports whether an attachment names this process's heartbeat. A nil Heart owns none.
func (h *Heart) owns(a attachment) bool { return h != nil && a.name == h.config.Lease.Name }

// current returns the epoch that goes on, without a lease duration. It waits for one for a
// RenewInterval, and returns none if there is none then, or if its last heartbeat is so long
// ago that another would come too late for any lock.
func (h *Heart) current(ctx context.Context) (attachment, error) {
	late := time.NewTimer(h.config.Timing.RenewInterval)
	defer late.Stop()
	for {
		h.mu.Lock()
		lease, e, changed := h.lease, h.epochIn(h.lease), h.changed
		beats := time.Since(h.beaten) < h.config.Timing.RenewDeadline
		h.mu.Unlock()
		if e != "" && beats && !h.seenToEnd(lease) {
			return attachment{name: lease.Name, uid: lease.UID, epoch: e}, nil
		}
		locks.DispatchOf(ctx).Held()
		select {
		case <-changed:
		case <-late.C:
			return attachment{}, nil
		case <-ctx.Done():
			return attachment{}, context.Cause(ctx)
		}
	}
}

// seenToEnd reports whether the view has shown that the epoch of a heartbeat's Lease is over.
func (h *Heart) seenToEnd(lease *coordinationv1.Lease) bool {
	now := h.config.View.Get(lease.Name)
	if now.Number <= record.Number(lease.ResourceVersion) {
		return false
	}
	return now.Lease == nil || now.Lease.UID != lease.UID || epochOf(now.Lease) != epochOf(lease)
}

// state is the Lease of the heartbeat as the last answer had it.
func (h *Heart) state() leasewatch.State {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lease == nil {
		return leasewatch.State{}
	}
	return leasewatch.State{Lease: h.lease, Number: record.Number(h.lease.ResourceVersion)}
}
