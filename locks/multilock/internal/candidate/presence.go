// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/zonelect/zonelect/internal/patience"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// PresenceKeeper keeps this candidate's presence object, and follows the presences of all
// candidates. Its exported methods are safe for concurrent use.
type PresenceKeeper struct {
	Present chan ownerref.Owner // gets the presence each time it has been ensured
	PodGone chan error          // gets ErrPodGone
	Listed  chan struct{}       // signaled when all presences have been listed for the first time

	config       Config
	mode         Mode
	shielded     bool          // the shield of a leader-for-life lock depends on the presence
	toldOthers   bool          // the log says that another workload campaigns; for followPeers alone
	failed       chan struct{} // signaled when the presence cannot be kept
	again        chan struct{} // the presence needs attention
	reworded     chan struct{} // the same, but it can wait
	peersChanged chan struct{} // the peers have changed
	remakes      sleep.Again   // of the presence, when it was deleted

	limit *patience.Limit // of the requests for it

	mu            sync.Mutex
	waiting       string
	health        advertisedHealth
	well          *time.Timer // until the presence may say that the candidate is healthy again
	err           error
	own           presence.Object // as last ensured
	missing       bool            // it was seen to be gone
	peers         []locks.Peer
	peersKnown    bool             // peers may be reported
	shieldKeepers []ownerref.Owner // the presences of those peers that keep a shield
}

// NewPresenceKeeper returns the keeper of the candidate that c describes. If shielded,
// the shield of a leader-for-life lock depends on the presence. The keeper signals on
// failed when it cannot keep the presence, and Problem says why.
func NewPresenceKeeper(c Config, mode Mode, shielded bool, failed chan struct{}) *PresenceKeeper {
	most := notPermitted
	if shielded {
		most = c.Timing.RenewInterval
	}
	return &PresenceKeeper{
		Present: make(chan ownerref.Owner), PodGone: make(chan error, 1), Listed: make(chan struct{}, 1),
		config: c, mode: mode, shielded: shielded, failed: failed,
		again: make(chan struct{}, 1), reworded: make(chan struct{}, 1), peersChanged: make(chan struct{}, 1),
		remakes: sleep.Again{First: c.Timing.RenewInterval / 10, Most: most},
		limit:   NewLimit(c.Timing),
		health:  advertisedHealth{first: c.Timing.LeaseDuration, most: 5 * steady},
	}
}

// SetUnhealthy has the presence object say why this candidate should not lead. The doc of
// package multilock says when that is written.
func (k *PresenceKeeper) SetUnhealthy(why string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	switch k.health.set(why, now) {
	case writeNow:
		Signal(k.again)
	case writeLater:
		Signal(k.reworded)
	case writeWhenDue:
		if k.well != nil {
			k.well.Stop()
		}
		k.well = time.AfterFunc(k.health.due.Sub(now), func() { Signal(k.again) })
	case writeNever:
	}
}

// Peers reports which candidates have a presence object at the lock, in the form of
// [election.Config]. It knows no candidate unless Keep runs.
func (k *PresenceKeeper) Peers(ctx context.Context, tell func([]locks.Peer)) {
	for {
		k.mu.Lock()
		peers, known := k.peers, k.peersKnown
		k.mu.Unlock()
		if known {
			tell(peers)
		}
		select {
		case <-k.peersChanged:
		case <-ctx.Done():
			return
		}
	}
}

// SetWaiting has the presence object say what this candidate waits for.
func (k *PresenceKeeper) SetWaiting(waiting string) {
	k.mu.Lock()
	k.waiting = waiting
	k.mu.Unlock()
	Signal(k.again)
}

// Problem says why there is no presence yet; nil if there is one.
func (k *PresenceKeeper) Problem() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// hasPod reports whether there is a pod that a presence can belong to.
func (k *PresenceKeeper) hasPod() bool { return k.config.Pod.Name != "" && k.config.Pod.UID != "" }

// pod is this candidate's pod; zero if no presence can belong to it.
func (k *PresenceKeeper) pod() presence.Pod {
	if !k.hasPod() {
		return presence.Pod{}
	}
	return presence.Pod{Name: k.config.Pod.Name, UID: k.config.Pod.UID}
}

// Keep keeps the presence, and the peers up to date, until ctx ends or this candidate's
// pod is gone.
func (k *PresenceKeeper) Keep(ctx context.Context) {
	var following sync.WaitGroup
	defer following.Wait()
	if !k.hasPod() {
		k.config.Lease.Logger.Info("the own pod is not known by name and UID, or is in another namespace than the Lease, so that neither people nor the other candidates know of this one: set POD_NAME and POD_UID by the downward API")
	}
	delays := k.delays()
	for first := true; ; first = false {
		later := time.Duration(-1)
		if k.hasPod() {
			var err error
			if later, err = k.ensure(ctx, delays); err != nil {
				select {
				case k.PodGone <- err:
				case <-ctx.Done():
				}
				return
			}
		}
		if first { // so that the first list finds this candidate's presence
			following.Go(func() { k.followPeers(ctx) })
		}
		if !k.waitForWork(ctx, later) {
			return
		}
	}
}

// waitForWork waits until the presence needs attention, but no longer than most unless
// most is negative. It returns false if ctx has ended.
func (k *PresenceKeeper) waitForWork(ctx context.Context, most time.Duration) bool {
	var late <-chan time.Time
	if most >= 0 {
		ready, stop := sleep.After(most)
		defer stop()
		late = ready
	}
	for {
		select {
		case <-k.again:
			return true
		case <-late:
			return true
		case <-k.reworded:
			if late == nil {
				late = time.After(steady)
			}
		case <-ctx.Done():
			return false
		}
	}
}

func (k *PresenceKeeper) delays() *backoff.ExponentialBackOff {
	interval := k.config.Timing.RenewInterval
	return Delays(interval/10, 5*interval)
}

// steady is how long nothing must have gone wrong for a trouble to be over.
const steady = time.Minute

// mayRemake waits until the presence may be made anew. That is at once, but after pauses that
// grow if it is deleted again and again. It returns false if ctx has ended.
func (k *PresenceKeeper) mayRemake(ctx context.Context) bool {
	if sleep.For(ctx, time.Until(k.remakes.Due())) != nil {
		return false
	}
	k.remakes.Made(time.Now())
	k.config.Lease.Logger.Info("the own presence object was deleted: making it anew")
	return true
}

// ensure creates or updates the presence. It returns how long to wait before doing so
// again without a signal, negative for never, or ErrPodGone.
func (k *PresenceKeeper) ensure(ctx context.Context, delays *backoff.ExponentialBackOff) (later time.Duration, err error) {
	k.mu.Lock()
	wanted, missing := k.presence(), k.missing
	k.missing = false
	k.mu.Unlock()
	if missing && !k.mayRemake(ctx) {
		return 0, nil
	}
	limited, done := k.limit.Of(ctx, 2)
	o, err := presence.Ensure(limited, k.config.Lease.Client, k.config.Lease.Namespace, wanted, k.config.Lease.Labels, k.confirmPod)
	done()
	switch {
	case errors.Is(err, ErrPodGone):
		return 0, err
	case err != nil && ctx.Err() != nil:
		return 0, nil // it is no problem that it ends
	}
	if k.setProblem(err); err != nil {
		return k.retryAfter(err, delays), nil
	}
	delays.Reset()
	k.mu.Lock()
	k.own = o
	k.mu.Unlock()
	select {
	case k.Present <- ownerOf(o):
	case <-ctx.Done():
	}
	return -1, nil
}

// presence is the content that the presence object must have. The caller holds mu.
func (k *PresenceKeeper) presence() presence.Object {
	w := k.config
	return presence.Object{
		Lock: w.Lease.Name, Pod: k.pod(),
		Identity: w.Candidate.Identity, Zone: w.Candidate.Zone, Node: w.Candidate.Node,
		Version: w.Version, Mode: string(k.mode), Waiting: k.waiting, Unhealthy: k.health.text(time.Now()), HeadStart: w.HeadStart,
	}
}

// notPermitted is how long after a refusal the next try comes if nothing depends on it.
const notPermitted = 10 * time.Minute

// retryAfter is how long after an error to try again. It is short for a shield, which
// depends on the presence.
func (k *PresenceKeeper) retryAfter(err error, delays *backoff.ExponentialBackOff) time.Duration {
	if errors.Is(err, locks.ErrForbidden) && !k.shielded {
		return notPermitted
	}
	return delays.NextBackOff()
}

// setProblem records why there is no presence, or that there is one.
func (k *PresenceKeeper) setProblem(err error) {
	k.mu.Lock()
	before := k.err
	k.err = err
	k.mu.Unlock()
	if err != nil && (before == nil || err.Error() != before.Error()) {
		k.config.Lease.Logger.Error(err, "cannot keep the own presence object: people and the other candidates do not know of this one")
		Signal(k.failed)
	}
}

// confirmPod returns an error unless the API server knows this candidate's pod.
func (k *PresenceKeeper) confirmPod(ctx context.Context) error {
	return k.pod().Confirm(ctx, k.config.Core, k.config.Lease.Namespace)
}

// followPeers keeps the peers up to date.
func (k *PresenceKeeper) followPeers(ctx context.Context) {
	begin := func() *presence.Roster {
		return presence.NewRoster(k.config.Lease.Client, k.config.Lease.Namespace, k.config.Lease.Name, k.pod())
	}
	roster, delays := begin(), k.delays()
	for refused := false; ctx.Err() == nil; {
		k.mu.Lock()
		own := k.own.Number
		k.mu.Unlock()
		began := time.Now()
		err := roster.Follow(ctx, own, k.setPresences)
		if time.Since(began) > steady {
			refused = false
			delays.Reset()
		}
		if err == nil && time.Since(began) > steady || ctx.Err() != nil {
			continue
		}
		forbidden := errors.Is(err, locks.ErrForbidden)
		if forbidden {
			roster = begin()
			k.setPresences(nil, 0) // the known presences may be outdated
		}
		if forbidden && !refused {
			refused = true
			k.config.Lease.Logger.Info("which other candidates there are is not known", "cause", err.Error())
		}
		if sleep.For(ctx, k.retryAfter(err, delays)) == nil && forbidden {
			Signal(k.again) // without a watch, a deletion of this candidate's presence goes unnoticed
		}
	}
}

// setPresences records the list of all presences at the lock, and has Peers report the
// candidates if they have changed.
func (k *PresenceKeeper) setPresences(all []presence.Object, asOf uint64) {
	k.tellOthers(all)
	k.mu.Lock()
	defer k.mu.Unlock()
	if own := k.own; own.UID != "" && own.Number <= asOf {
		i := slices.IndexFunc(all, func(o presence.Object) bool { return o.Name == own.Name })
		if k.missing = i < 0; i < 0 || all[i].UID != own.UID {
			Signal(k.again)
		}
	}
	k.shieldKeepers = shieldKeepers(all)
	if !k.peersKnown {
		Signal(k.Listed)
	}
	if peers := presence.Peers(all, k.own.Name); !k.peersKnown || !slices.Equal(peers, k.peers) {
		k.peers, k.peersKnown = peers, true
		Signal(k.peersChanged)
	}
}

// tellOthers says once that pods of another Deployment campaign for the lock.
func (k *PresenceKeeper) tellOthers(all []presence.Object) {
	own := k.pod().Deployment()
	other := func(o presence.Object) bool { d := o.Pod.Deployment(); return d != "" && d != own }
	if i := slices.IndexFunc(all, other); i >= 0 && own != "" && !k.toldOthers {
		k.toldOthers = true
		k.config.Lease.Logger.Info("pods of another Deployment campaign for this lock too: if that is another program, give it a lock name of its own", "lock", k.config.Lease.Name, "own", own, "other", all[i].Pod.Deployment(), "pod", all[i].Pod.Name)
	}
}

// ShieldKeepers returns the presences of all known candidates that keep a shield, and
// whether anything is known of the other candidates yet.
func (k *PresenceKeeper) ShieldKeepers() ([]ownerref.Owner, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.shieldKeepers, k.peersKnown
}

// ListShieldKeepers lists the presences of all candidates that keep a shield.
func (k *PresenceKeeper) ListShieldKeepers(ctx context.Context) ([]ownerref.Owner, error) {
	all, err := presence.List(ctx, k.config.Lease.Client, k.config.Lease.Namespace, k.config.Lease.Name)
	return shieldKeepers(all), err
}

// shieldKeepers returns the presences, among all, of the candidates that keep a shield. A
// candidate in mode lease does not keep one (M10).
func shieldKeepers(all []presence.Object) []ownerref.Owner {
	var owners []ownerref.Owner
	for _, o := range all {
		if CheckMode(Mode(o.Mode)) == nil {
			owners = append(owners, ownerOf(o))
		}
	}
	return owners
}

func ownerOf(o presence.Object) ownerref.Owner {
	return ownerref.Owner{Kind: ownerref.Lease, Name: o.Name, UID: o.UID}
}
