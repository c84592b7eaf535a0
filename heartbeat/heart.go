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

// heartConfig is the configuration of a heart.
type heartConfig struct {
	// lease is the Lease of the heartbeat. Its name must be new for each start of a process.
	// Its Client should have connections of its own: heartbeats share them only with the few
	// other writes of the heart, for rules L6 and L8.
	lease    lease.Config
	view     *leasewatch.View // of the Leases of the namespace
	writes   *writes          // of the locks that the heartbeat keeps
	identity string           // of the candidate whose elector keeps the heartbeat
	timing   timing.Timing    // of that elector and of all locks
}

// heart is the lock whose elector keeps the heartbeat of a process: each renewal of that
// elector is a heartbeat, and each of its terms an epoch. Its methods are safe for concurrent
// use.
type heart struct {
	lock   *lease.Lock
	config heartConfig

	mu      sync.Mutex
	waiting []*renewal            // for a heartbeat that lands
	beats   []*beat               // sent, and not known to have landed, oldest first
	lease   *coordinationv1.Lease // as the last answer had it; nil before the first
	changed chan struct{}         // closed, and replaced, when lease changes
	beaten  time.Time             // when the last heartbeat was sent that landed
	newest  epoch                 // that was written last, whatever came of it
	present epoch                 // that goes on, as far as is known; empty if none does
	ended   chan struct{}         // closed, and replaced, when present ends
	why     string                // the last one ended
	begun   []epoch               // the last ones that were written first, oldest first
	kept    map[string]*kept      // by name: the locks that name this heartbeat

	leaving    []*leaving       // to be released by the next note
	left       map[string]*left // by name: released by a note, or to be
	noting     bool             // a note is being written
	freeing    bool             // releases that were noted are being written
	settling   bool             // all of them are to be
	background sync.WaitGroup   // what writes either
	life       context.Context  // of whatever else goes on beside the elector
	endLife    context.CancelFunc
	tasks      sync.WaitGroup // what does so
	noteAgain  time.Time      // no note before that; only the goroutine that writes notes uses it
	took       time.Duration  // how long the last heartbeat's answer took
	refused    bool           // a heartbeat has met a conflict, or will, and none has landed since
	madeAnew   int            // how often the Lease was another than before, because somebody deleted it
	uid        types.UID      // of the Lease that was seen last
}

// renewal is one lock's wait for a heartbeat.
type renewal struct {
	epoch  epoch
	landed chan landed // gets one value
}

// landed is a heartbeat that landed, with the Leases as they were at that moment or later.
type landed struct {
	lease  *coordinationv1.Lease
	leases interface {
		GetSince(name string, version uint64) (leasewatch.State, bool)
	}
	sent time.Time // just before the heartbeat was sent
	err  error
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
	record locks.Record
	sent   time.Time
	after  uint64 // the version of some change before it
}

var _ locks.Lock = (*heart)(nil)

// newHeart returns the heart that c describes. It does no I/O.
func newHeart(c heartConfig) (*heart, error) {
	c.lease.Labels = maps.Clone(c.lease.Labels)
	if c.lease.Labels == nil {
		c.lease.Labels = map[string]string{}
	}
	c.lease.Labels[record.LabelRole] = record.RoleHeartbeat
	h := &heart{changed: make(chan struct{}), ended: make(chan struct{}), kept: map[string]*kept{}, left: map[string]*left{}}
	if owners := c.lease.Owners; owners != nil {
		c.lease.Owners = func(ctx context.Context) []metav1.OwnerReference {
			if h.ownerless() {
				return nil
			}
			return owners(ctx)
		}
	}
	lock, err := lease.New(c.lease)
	if err != nil {
		return nil, fmt.Errorf("heartbeat: %w", err)
	}
	c.view.Keep(func(lease *coordinationv1.Lease) bool { // for sweep
		a, attached := attachmentOf(lease)
		return attached && a.name == c.lease.Name
	})
	h.lock, h.config = lock, c
	h.begin()
	return h, nil
}

// begin lets tasks begin, again if finish has ended them.
func (h *heart) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.life, h.endLife = context.WithCancel(context.Background())
}

// finish ends all tasks, and lets none begin.
func (h *heart) finish() {
	h.mu.Lock()
	h.endLife()
	h.mu.Unlock()
	h.tasks.Wait()
	h.background.Wait()
}

// task begins what finish ends. The caller holds mu.
func (h *heart) task(f func(context.Context)) {
	if h.life.Err() == nil {
		h.tasks.Go(func() { f(h.life) })
	}
}

// ownerless reports whether the Lease is to have no owner when it is made: something deletes it
// again and again, perhaps because of its owner.
func (h *heart) ownerless() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.madeAnew > 0
}

// Describe returns the Lease's name. It does no I/O.
func (h *heart) Describe() locks.Description { return h.lock.Describe() }

// Capabilities are those of the Lease.
func (h *heart) Capabilities() locks.Capabilities { return h.lock.Capabilities() }

// Read reads the Lease. It may show that a heartbeat landed whose answer was lost.
func (h *heart) Read(ctx context.Context) (locks.Snapshot, error) {
	before := h.state().Number
	s, err := h.lock.Read(ctx)
	if err == nil && s.Version.Exists() && s.Version.Number < before {
		h.wentBack()
	}
	if err == nil {
		h.learn(s)
	}
	return s, err
}

// Watch follows the Lease in the view.
func (h *heart) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	alone := func(lease *coordinationv1.Lease, _ leasewatch.State) composed {
		return composed{Snapshot: record.Snapshot(lease)}
	}
	return newFeed(h.config.view, h.config.lease.Name, from, alone).pass(ctx, func(e locks.Event) { h.observe(e.Snapshot) }, events)
}

// Write sends a heartbeat, or begins or ends an epoch. It does not resume an epoch that has
// ended: others may rely on that end already (L5). An elector would do so that puts its name
// back on an emptied record, or whose second acquisition has replaced its first.
func (h *heart) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	if h.resumes(base, r) {
		return locks.Snapshot{}, fmt.Errorf("%v: this epoch of the heartbeat has ended: %w", h.Describe(), locks.ErrConflict)
	}
	b := h.depart(r)
	s, err := h.lock.Write(ctx, base, r)
	h.answered(b, err)
	if err == nil {
		h.learn(s)
	}
	return s, err
}

// answered notes how long the answer to a heartbeat took, and whether it met a conflict since which
// no other has landed.
func (h *heart) answered(b *beat, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.took = time.Since(b.sent)
	h.refused = h.refused || errors.Is(err, locks.ErrConflict) && slices.Contains(h.beats, b)
}

// mostBegun is how many epochs are remembered. An elector goes on with one that it has begun
// among its last few writes.
const mostBegun = 16

// resumes reports whether a write would go on with an epoch on a Lease that is not of that epoch
// any more. If not, the epoch is the newest.
func (h *heart) resumes(base locks.Version, r locks.Record) bool {
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

// mostBeats is how many heartbeats without an answer are remembered.
const mostBeats = 16

// depart notes a heartbeat just before it is sent.
func (h *heart) depart(r locks.Record) *beat {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := &beat{record: r, sent: time.Now(), after: h.config.view.At()}
	h.beats = append(h.beats[max(0, len(h.beats)+1-mostBeats):], b)
	return b
}

// unlike returns the time for a lock's own write that is sent now: t, unless a heartbeat that
// may be the last has the same. Others could not tell the write from that heartbeat, and would
// count from their first sight of either, while the holder counts from the later one. For the same
// reason a write of a term that goes on is later than those heartbeats: others would take an
// earlier one for a hand's, which renews nothing. An acquisition is unlike all before it anyway.
func (h *heart) unlike(t time.Time, goesOn bool) time.Time {
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
func (h *heart) wentBack() {
	h.config.view.WentBack()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lease = nil
	clear(h.left) // versions may be used again
}

// learn notes the Lease as an answer showed it. If that is the record of a heartbeat, the
// heartbeat has landed, and all that wait for one are renewed. They count from when it was sent,
// whether that was before they asked or after: behind a slow server a later heartbeat would land
// too late for them.
func (h *heart) learn(s locks.Snapshot) {
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
	if now == nil {
		return // a Lease that is gone ends no epoch, see isOver
	}
	is := h.epochIn(now)
	if seen := h.config.view.Get(h.config.lease.Name); is != "" && seen.Number > s.Version.Number && h.isOver(seen.Lease, is) {
		is = ""
	}
	h.goesOn(is, now)
	i := slices.IndexFunc(h.beats, func(b *beat) bool { return s.Record.SameRenewal(b.record) })
	if i < 0 {
		return
	}
	b := h.beats[i]
	h.beats, h.beaten, h.refused = h.beats[i+1:], b.sent, false
	if s.Version.Number <= b.after {
		h.config.view.WentBack()
		clear(h.left)
	}
	if renewed := h.waiting; len(renewed) > 0 {
		h.waiting = nil
		h.task(func(ctx context.Context) { h.confirm(ctx, landed{lease: now, sent: b.sent}, renewed) })
	}
	if is != "" {
		h.sweep(now)
		h.tidy(now)
	}
}

// observe notes what the watch shows of the Lease. Only an answer begins an epoch, but the watch may
// tell of its end before that.
func (h *heart) observe(s locks.Snapshot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lease == nil || s.Version.Number <= record.Number(h.lease.ResourceVersion) {
		return
	}
	now, _ := s.Version.Opaque.(*coordinationv1.Lease)
	if h.present != "" && h.isOver(now, h.present) {
		h.goesOn("", now)
	}
}

// isOver reports whether an epoch is over, by the Lease as it is now. One that is gone ends no epoch:
// others wait a lease from their sight of that (L4), and the elector recreates it at once. The caller
// holds mu.
func (h *heart) isOver(now *coordinationv1.Lease, e epoch) bool {
	return now != nil && h.epochIn(now) != e
}

// goesOn notes which epoch goes on, by the Lease as it is now. If that is another one than before,
// the waits for heartbeats of that one are over, and so are the terms that it kept (L5). The caller
// holds mu.
func (h *heart) goesOn(is epoch, now *coordinationv1.Lease) {
	if is == h.present {
		return
	}
	h.why = voidGone
	if now != nil {
		if note, noted := withdrawalOf(now); noted && note.epoch == h.present {
			h.why = voidWithdrawn
		}
	}
	h.present = is
	close(h.ended)
	h.ended = make(chan struct{})
	for _, one := range h.waiting {
		one.landed <- landed{err: fmt.Errorf("%s: %w", h.why, locks.ErrConflict)}
	}
	h.waiting = nil
}

// epochIn is this process's epoch by the Lease of its heartbeat; empty if it has none. An
// epoch that somebody's edit has made is none. The caller holds mu.
func (h *heart) epochIn(lease *coordinationv1.Lease) epoch {
	if lease == nil || record.Read(lease).Holder != h.config.identity || epochOf(lease) != h.newest {
		return ""
	}
	return h.newest
}

// confirm tells those that waited for a heartbeat that it landed, once it is known how all Leases
// were then or later (L1).
func (h *heart) confirm(ctx context.Context, l landed, renewed []*renewal) {
	ctx, cancel := context.WithTimeout(ctx, h.config.timing.RenewDeadline)
	defer cancel()
	shown := h.shown(ctx, l.lease)
	shown.sent = l.sent
	for _, one := range renewed {
		one.landed <- shown
	}
}

// shown returns a write that has landed on the heartbeat's Lease, once it is known how all
// Leases were then or later: from the watch, or else from a list.
func (h *heart) shown(ctx context.Context, lease *coordinationv1.Lease) landed {
	l := landed{lease: lease, leases: h.config.view}
	if !h.config.view.Reach(ctx, record.Number(lease.ResourceVersion)) {
		r, err := h.config.view.Read(ctx)
		if l.leases, l.err = r, err; err != nil {
			l.err = fmt.Errorf("the heartbeat landed, but it is not known whether the lock was still held: %w", err)
		}
	}
	return l
}

// renew waits for a heartbeat of the epoch that lands after the call, and returns it. It may have
// been sent before the call, see learn.
func (h *heart) renew(ctx context.Context, name string, a attachment) (landed, error) {
	one := &renewal{epoch: a.epoch, landed: make(chan landed, 1)}
	h.mu.Lock()
	if now := h.current(); now.uid != a.uid || now.epoch != a.epoch {
		h.mu.Unlock()
		return landed{}, locks.ErrNotKept
	}
	h.waiting = append(h.waiting, one)
	k := h.keep(name)
	k.asks++
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		k.asks--
		k.asked = time.Now()
		h.waiting = slices.DeleteFunc(h.waiting, func(r *renewal) bool { return r == one })
	}()
	select {
	case l := <-one.landed:
		return l, l.err
	case <-ctx.Done():
		return landed{}, context.Cause(ctx)
	}
}

// owns reports whether an attachment names this process's heartbeat. A nil heart owns none.
func (h *heart) owns(a attachment) bool { return h != nil && a.name == h.config.lease.Name }

// current returns the epoch that goes on, without a lease duration. It is none if there is none, or
// if its last heartbeat is so long ago that another would come too late for any lock. The caller
// holds mu.
func (h *heart) current() attachment {
	if h.lease == nil || h.present == "" || time.Since(h.beaten) >= h.config.timing.RenewDeadline || h.seenToEnd(h.lease) {
		return attachment{}
	}
	return attachment{name: h.lease.Name, uid: h.lease.UID, epoch: h.present}
}

// keeps returns the heartbeat that is to keep a record, and notes its epoch for over; none if the
// record has no holder, or if no epoch goes on. A renewal of a term whose epoch is over does not hide
// that.
func (h *heart) keeps(l *lock, r locks.Record) attachment {
	h.mu.Lock()
	defer h.mu.Unlock()
	var a attachment
	if r.Holder != "" {
		a = h.current()
	}
	if !h.hasEnded(l.epoch) || r.Details.Token == 0 {
		l.epoch = a.epoch
	}
	if a.epoch != "" {
		a.lease = r.LeaseDuration
	}
	return a
}

// over returns why the epoch that keeps a lock is over; empty if it is not, and a channel that is
// closed when one ends.
func (h *heart) over(l *lock) (ended <-chan struct{}, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hasEnded(l.epoch) {
		return h.ended, h.why
	}
	return h.ended, ""
}

// hasEnded reports whether an epoch that kept a lock is over; an empty one kept none. The caller holds
// mu.
func (h *heart) hasEnded(e epoch) bool { return e != "" && e != h.present }

// await waits for an epoch, for a RenewInterval at most.
func (h *heart) await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, h.config.timing.RenewInterval)
	defer cancel()
	for {
		h.mu.Lock()
		is, changed := h.current(), h.changed
		h.mu.Unlock()
		if is != (attachment{}) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// seenToEnd reports whether the view has shown that the epoch of a heartbeat's Lease is over.
func (h *heart) seenToEnd(lease *coordinationv1.Lease) bool {
	now := h.config.view.Get(lease.Name)
	if now.Number <= record.Number(lease.ResourceVersion) {
		return false
	}
	return now.Lease == nil || now.Lease.UID != lease.UID || epochOf(now.Lease) != epochOf(lease)
}

// state is the Lease of the heartbeat as the last answer had it.
func (h *heart) state() leasewatch.State {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lease == nil {
		return leasewatch.State{}
	}
	return leasewatch.State{Lease: h.lease, Number: record.Number(h.lease.ResourceVersion)}
}
