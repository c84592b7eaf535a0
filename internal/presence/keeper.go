// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package presence

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/internal/transport/live"
	"github.com/zonelect/zonelect/locks"
)

// Alone is the Mode of a candidate that takes no part in a migration: its lock is a Lease alone.
const Alone = "lease"

// KeeperConfig is the configuration of a [Keeper].
type KeeperConfig struct {
	Client    rest.Interface // of the group coordination.k8s.io/v1
	Core      rest.Interface // of the core group
	Namespace string         // of the lock's Lease
	Labels    map[string]string
	// Says is what the presence says at first. Without the name and UID of a pod in that namespace it must be
	// renewed.
	Says Object
	// Shielded says that the shield of a leader-for-life lock depends on the presence.
	Shielded bool
	// Failed, if not nil, is signaled when the presence cannot be kept. [Keeper.Problem] says why.
	Failed chan struct{}
	Timing timing.Timing // of the election, with its defaults
	Logger logr.Logger
}

// Keeper keeps this candidate's presence object, and follows the presences of all
// candidates. Its exported methods are safe for concurrent use.
//
// The presence is one more Lease, which shows the candidate to people and to the other
// candidates. The candidate's pod owns it, so that it is deleted with the pod. The keeper writes
// it at the start and on each change, and about once a minute if there is no such pod.
type Keeper struct {
	Present chan Object   // gets the presence when it has been ensured; holds the last one only
	Listed  chan struct{} // signaled when all presences have been listed for the first time

	config KeeperConfig
	again  chan struct{} // the presence needs attention
	remade time.Time     // when it was recreated last, after somebody had deleted it

	mu      sync.Mutex
	says    Object    // what the presence must say
	ends    bool      // this candidate is about to end
	told    time.Time // when the presence was last to say another health
	err     error
	own     Object   // as last ensured
	missing bool     // it was seen to be gone
	listed  []Object // all presences
	known   bool     // they have been listed
	lapses  lapses
	changed chan struct{} // closed when the peers may have changed
}

// NewKeeper returns the keeper of the presence that c describes. It does no I/O.
func NewKeeper(c KeeperConfig) *Keeper {
	if c.Says.Pod.Name == "" || c.Says.Pod.UID == "" {
		c.Says.Pod = Pod{}
	}
	c.Says.Stop = c.Timing.StopTimeout.String()
	return &Keeper{
		Present: make(chan Object, 1), Listed: make(chan struct{}, 1), config: c, says: c.Says,
		again: make(chan struct{}, 1), changed: make(chan struct{}),
	}
}

// SetUnhealthy has the presence object say why this candidate should not lead; empty means that it
// is healthy. The object says so at once, or within 15 s if it said something else less than a
// LeaseDuration ago. SetUnhealthy does no I/O.
func (k *Keeper) SetUnhealthy(why string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ends {
		return
	}
	k.says.Unhealthy = why
	if time.Since(k.told) >= k.config.Timing.LeaseDuration {
		k.told = time.Now()
		sleep.Wake(k.again)
	}
}

// SetWaiting has the presence object say what this candidate waits for.
func (k *Keeper) SetWaiting(waiting string) { k.set(func(o *Object) { o.Waiting = waiting }) }

// SetZone has the presence object say in which zone this candidate is. It does no I/O.
func (k *Keeper) SetZone(zone string) {
	k.set(func(o *Object) { o.Zone = zone })
}

func (k *Keeper) set(change func(*Object)) {
	k.mu.Lock()
	change(&k.says)
	k.mu.Unlock()
	sleep.Wake(k.again)
}

// Peers reports which candidates have a presence object at the lock, in the form of
// [election.Config], to each caller. It knows no candidate unless Keep runs.
func (k *Keeper) Peers(ctx context.Context, tell func([]locks.Peer)) {
	var told []locks.Peer
	for first := true; ; {
		k.mu.Lock()
		changed := k.changed
		k.mu.Unlock()
		all, known := k.All()
		if now := peers(all); known && (first || !slices.Equal(now, told)) {
			tell(now)
			told, first = now, false
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Problem says why there is no presence yet; nil if there is one.
func (k *Keeper) Problem() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// Keep keeps the presence, and the peers up to date, until ctx ends. If the API server does not know this
// candidate's pod, or not any more, Keep returns ErrPodGone if a shield depends on the presence. Otherwise,
// also if this process may not see whether its pod exists, no pod owns the presence from then on.
func (k *Keeper) Keep(ctx context.Context) error {
	ctx, cancel := context.WithCancel(live.Aside(ctx))
	var following sync.WaitGroup
	defer k.leave(ctx)
	defer following.Wait()
	defer cancel()
	k.mu.Lock()
	k.listed, k.lapses, k.known = nil, nil, false // what an earlier call knew is old
	k.mu.Unlock()
	interval := k.config.Timing.RenewInterval
	delays := sleep.Delays(interval/10, 5*interval)
	for first := true; ; first = false {
		later, err := k.ensure(ctx, delays)
		if err != nil {
			return err
		}
		if first { // so that the first list finds this candidate's presence
			following.Go(func() { k.followPeers(ctx, sleep.Delays(interval/10, 5*interval)) })
			following.Go(func() { k.tidy(ctx) })
			if k.own.Pod != (Pod{}) {
				following.Go(func() { k.watchPod(ctx) })
			}
		}
		ready, stop := sleep.After(later)
		select {
		case <-k.again:
		case <-ready:
		case <-ctx.Done():
			stop()
			return nil
		}
		stop()
	}
}

// steady is how long something must have lasted for its end to be a case of its own.
const steady = time.Minute

// ensure creates or updates the presence. It returns how long to wait before doing so
// again without a signal, or ErrPodGone.
func (k *Keeper) ensure(ctx context.Context, delays *backoff.ExponentialBackOff) (later time.Duration, err error) {
	wanted, again := k.wanted()
	if again { // at once, but not if something deletes it again and again
		pause := steady
		if k.config.Shielded {
			pause = k.config.Timing.RenewInterval
		}
		if sleep.For(ctx, time.Until(k.remade.Add(pause))) != nil {
			return 0, nil
		}
		k.remade = time.Now()
		k.config.Logger.Info("this candidate's presence was deleted: recreating it")
	}
	limited, cancel := context.WithTimeout(ctx, k.config.Timing.RenewDeadline)
	o, err := Ensure(limited, k.config.Client, k.config.Namespace, wanted, k.config.Labels, func(ctx context.Context) error {
		return wanted.Pod.Confirm(ctx, k.config.Core, k.config.Namespace)
	})
	cancel()
	switch {
	case k.config.Shielded && errors.Is(err, ErrPodGone):
		return 0, err
	case !k.config.Shielded && (errors.Is(err, ErrPodGone) || errors.Is(err, errUnconfirmed)):
		k.config.Logger.Info("no pod owns this candidate's presence", "cause", err.Error())
		k.set(func(o *Object) { o.Pod = Pod{} })
		return k.ensure(ctx, delays)
	case errors.Is(err, locks.ErrConflict), err != nil && ctx.Err() != nil: // that somebody writes it too, or that it ends, is no problem
		return delays.NextBackOff(), nil
	}
	k.mu.Lock()
	before := k.err
	if k.err = err; err == nil {
		k.own = o
	}
	k.mu.Unlock()
	if err != nil {
		if before == nil || err.Error() != before.Error() {
			k.config.Logger.Error(err, "cannot write this candidate's presence: kubectl zonelect and the other candidates do not see this one")
			sleep.Wake(k.config.Failed)
		}
		return k.retryAfter(err, delays), nil
	}
	delays.Reset()
	select {
	case <-k.Present:
	default:
	}
	k.Present <- o // only this goroutine sends
	if wanted.Renewed != 0 {
		return spread(period), nil
	}
	return 24 * time.Hour, nil // only a change makes it sooner
}

// wanted is what the presence object must say. again reports whether it was seen to be gone.
func (k *Keeper) wanted() (o Object, again bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	o = k.says
	if o.Pod == (Pod{}) {
		o.Renewed = time.Now().Unix()
	}
	again, k.missing = k.missing, false
	return o, again
}

// notPermitted is how long after a refusal the next try comes if nothing depends on it.
const notPermitted = 10 * time.Minute

// retryAfter is how long after an error to try again. It is short for a shield, which
// depends on the presence.
func (k *Keeper) retryAfter(err error, delays *backoff.ExponentialBackOff) time.Duration {
	if errors.Is(err, locks.ErrForbidden) && !k.config.Shielded {
		return notPermitted
	}
	return delays.NextBackOff()
}

// followPeers keeps the peers up to date.
func (k *Keeper) followPeers(ctx context.Context, delays *backoff.ExponentialBackOff) {
	r := &roster{client: k.config.Client, namespace: k.config.Namespace, lock: k.config.Says.Lock}
	for refused := false; ctx.Err() == nil; {
		k.mu.Lock()
		own := k.own.Number
		k.mu.Unlock()
		began := time.Now()
		err := r.follow(ctx, own, k.setPresences)
		if time.Since(began) > steady {
			delays.Reset()
		}
		known := refused
		if refused = errors.Is(err, locks.ErrForbidden); refused {
			r.number = 0
			k.setPresences(nil, 0) // the known presences may be outdated
			sleep.Wake(k.again)    // without a watch, a deletion of this candidate's presence goes unnoticed
		}
		if refused && !known {
			k.config.Logger.Info("the other candidates are not known", "cause", err.Error())
		}
		_ = sleep.For(ctx, k.retryAfter(err, delays))
	}
}

// setPresences records the list of all presences at the lock, and has Peers report the
// candidates if they have changed.
func (k *Keeper) setPresences(all []Object, asOf uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if own := k.own; own.UID != "" && own.Number <= asOf {
		i := slices.IndexFunc(all, func(o Object) bool { return o.Name == own.Name })
		if k.missing = i < 0; i < 0 || all[i].UID != own.UID {
			sleep.Wake(k.again)
		}
	}
	k.listed = all
	k.lapses = k.lapses.note(all, k.own.Name, time.Now())
	if !k.known {
		k.known = true
		sleep.Wake(k.Listed)
	}
	k.lookAgain()
}

// lookAgain has Peers look at the candidates again. The caller holds mu.
func (k *Keeper) lookAgain() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// All returns the presences of all candidates that are known: those that count. It reports whether anything
// is known of them yet.
func (k *Keeper) All() (live []Object, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	return slices.DeleteFunc(slices.Clone(k.listed), func(o Object) bool { return !k.lapses.counts(o, now) }), k.known
}
