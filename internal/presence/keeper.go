// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package presence

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/live"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
)

// Alone is the Mode of a candidate that takes no part in a migration: its lock is a Lease alone.
const Alone = "lease"

// KeeperConfig is the configuration of a [Keeper].
type KeeperConfig struct {
	Client    rest.Interface // of the group coordination.k8s.io/v1
	Core      rest.Interface // of the core group
	Namespace string         // of the lock's Lease
	Lock      string         // the name of the lock's Lease
	Labels    map[string]string
	Candidate locks.Candidate
	Pod       Pod // this candidate's, in that namespace; without its name and UID the presence must be renewed
	// Version, Mode and KnownFrom are what the presence says, see [Object].
	Version, Mode, KnownFrom string
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

	config       KeeperConfig
	undeletable  sync.Once     // the log says that presences may not be deleted
	podOptional  bool          // Keep returns if it is not known whether the pod exists
	again        chan struct{} // the presence needs attention
	healed       chan struct{} // the health has changed
	told         time.Time     // when the presence was last written because of that
	peersChanged chan struct{} // the peers have changed
	remakes      sleep.Again   // of the presence, when it was deleted

	limit *rawapi.Limit // of the requests for it

	mu         sync.Mutex
	ends       string // why this candidate is to end; empty if it is not
	waiting    string
	unhealthy  string
	err        error
	zone       string
	podless    bool   // no pod owns the presence
	own        Object // as last ensured
	missing    bool   // it was seen to be gone
	peers      []locks.Peer
	peersKnown bool     // peers may be reported
	listed     []Object // all presences
	lapses     lapses
	all        []Object // the presences of all candidates: those that count
}

// NewKeeper returns the keeper of the presence that c describes. It does no I/O.
func NewKeeper(c KeeperConfig) *Keeper {
	most := notPermitted
	if c.Shielded {
		most = c.Timing.RenewInterval
	}
	return &Keeper{
		Present: make(chan Object, 1), Listed: make(chan struct{}, 1), config: c,
		again: make(chan struct{}, 1), healed: make(chan struct{}, 1), peersChanged: make(chan struct{}, 1),
		zone: c.Candidate.Zone, podless: c.Pod.Name == "" || c.Pod.UID == "",
		remakes: sleep.Again{First: c.Timing.RenewInterval / 10, Most: most},
		limit:   rawapi.NewLimit(c.Timing.AttemptTimeout, c.Timing.RenewDeadline),
	}
}

// signal wakes the goroutine that receives from a channel of capacity one.
func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// SetUnhealthy has the presence object say why this candidate should not lead; empty means that it
// is healthy. The object says so at once, or a LeaseDuration after it last said something else. It
// does no I/O.
func (k *Keeper) SetUnhealthy(why string) { k.set(&k.unhealthy, why, k.healed) }

// SetWaiting has the presence object say what this candidate waits for.
func (k *Keeper) SetWaiting(waiting string) { k.set(&k.waiting, waiting, k.again) }

// SetZone has the presence object say in which zone this candidate is. It does no I/O.
func (k *Keeper) SetZone(zone string) { k.set(&k.zone, zone, k.again) }

func (k *Keeper) set(what *string, to string, changed chan struct{}) {
	k.mu.Lock()
	*what = to
	k.mu.Unlock()
	signal(changed)
}

// Peers reports which candidates have a presence object at the lock, in the form of
// [election.Config]. It knows no candidate unless Keep runs.
func (k *Keeper) Peers(ctx context.Context, tell func([]locks.Peer)) {
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

// Problem says why there is no presence yet; nil if there is one.
func (k *Keeper) Problem() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// Keep keeps the presence, and the peers up to date, until ctx ends, or until this candidate's
// pod is gone: then it returns ErrPodGone.
func (k *Keeper) Keep(ctx context.Context) error {
	ctx, cancel := context.WithCancel(live.Aside(ctx))
	var following sync.WaitGroup
	defer k.leave(ctx)
	defer following.Wait()
	defer cancel()
	k.mu.Lock()
	k.listed, k.lapses, k.peersKnown = nil, nil, false // what an earlier call knew is old
	k.mu.Unlock()
	delays := k.delays()
	for first := true; ; first = false {
		later, err := k.ensure(ctx, delays)
		if err != nil {
			return err
		}
		if first { // so that the first list finds this candidate's presence
			following.Go(func() { k.followPeers(ctx) })
			following.Go(func() { k.tidy(ctx) })
			if k.own.Pod != (Pod{}) {
				following.Go(func() { k.watchPod(ctx) })
			}
		}
		if !k.waitForWork(ctx, later) {
			return nil
		}
	}
}

// Run is Keep for a candidate whose election does not depend on the presence. If the API server does
// not know its pod, or not any more, or this process may not see that, no pod owns the presence from
// then on.
func (k *Keeper) Run(ctx context.Context) {
	k.podOptional = true
	for {
		err := k.Keep(ctx)
		if err == nil {
			return
		}
		k.config.Logger.Info("this candidate's presence is kept without a pod that owns it", "cause", err.Error())
		k.mu.Lock()
		k.podless = true
		k.mu.Unlock()
	}
}

// Beside returns a Guardian that does what g does, and runs the keeper as long as it attends.
func (k *Keeper) Beside(g locks.Guardian) locks.Guardian { return beside{g, k} }

type beside struct {
	locks.Guardian
	keeper *Keeper
}

// Attend attends, and keeps the presence meanwhile.
func (b beside) Attend(ctx context.Context, permit func(locks.Permission)) error {
	ctx, cancel := context.WithCancel(ctx)
	var keeping sync.WaitGroup
	defer keeping.Wait()
	defer cancel()
	keeping.Go(func() { b.keeper.Run(ctx) })
	return b.Guardian.Attend(ctx, permit)
}

// waitForWork waits until the presence needs attention, but no longer than most unless
// most is negative. It returns false if ctx has ended.
func (k *Keeper) waitForWork(ctx context.Context, most time.Duration) bool {
	var late, due <-chan time.Time
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
		case <-due:
			k.told = time.Now()
			return true
		case <-k.healed:
			ready, stop := sleep.After(time.Until(k.told.Add(k.config.Timing.LeaseDuration)))
			defer stop()
			due = ready
		case <-ctx.Done():
			return false
		}
	}
}

func (k *Keeper) delays() *backoff.ExponentialBackOff {
	interval := k.config.Timing.RenewInterval
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(interval/10), backoff.WithMaxInterval(5*interval), backoff.WithMaxElapsedTime(0))
}

// steady is how long nothing must have gone wrong for a trouble to be over.
const steady = time.Minute

// mayRemake waits until the presence may be recreated. That is at once, but after pauses that
// grow if it is deleted again and again. It returns false if ctx has ended.
func (k *Keeper) mayRemake(ctx context.Context) bool {
	if sleep.For(ctx, time.Until(k.remakes.Due())) != nil {
		return false
	}
	k.remakes.Made(time.Now())
	k.config.Logger.Info("this candidate's presence was deleted: recreating it")
	return true
}

// ensure creates or updates the presence. It returns how long to wait before doing so
// again without a signal, negative for never, or ErrPodGone.
func (k *Keeper) ensure(ctx context.Context, delays *backoff.ExponentialBackOff) (later time.Duration, err error) {
	k.mu.Lock()
	wanted, missing := k.presence(), k.missing
	k.missing = false
	k.mu.Unlock()
	if missing && !k.mayRemake(ctx) {
		return 0, nil
	}
	limited, done := k.limit.Of(ctx, 2)
	o, err := Ensure(limited, k.config.Client, k.config.Namespace, wanted, k.config.Labels, k.confirmPod)
	done()
	switch {
	case errors.Is(err, ErrPodGone), k.podOptional && errors.Is(err, errUnconfirmed):
		return 0, err
	case err != nil && ctx.Err() != nil:
		return 0, nil // it is not a problem that it ends
	}
	if k.setProblem(err); err != nil {
		return k.retryAfter(err, delays), nil
	}
	delays.Reset()
	k.mu.Lock()
	k.own = o
	k.mu.Unlock()
	select {
	case <-k.Present:
	default:
	}
	k.Present <- o // only this goroutine sends
	if wanted.Renewed != 0 {
		return spread(wanted.lasts() / periods), nil
	}
	return -1, nil
}

// presence is the content that the presence object must have. The caller holds mu.
func (k *Keeper) presence() Object {
	w := k.config
	o := Object{
		Lock: w.Lock, Pod: w.Pod,
		Identity: w.Candidate.Identity, Zone: k.zone, Node: w.Candidate.Node,
		Version: w.Version, Mode: w.Mode, Waiting: k.waiting, Unhealthy: cmp.Or(k.ends, k.unhealthy),
		KnownFrom: w.KnownFrom, Stop: w.Timing.StopTimeout.String(),
	}
	if w.Candidate.Zone == "" && k.zone != "" {
		o.KnownFrom += ", zone from node"
	}
	if k.podless {
		o.Pod, o.Renewed, o.Lasts = Pod{}, time.Now().Unix(), int32(periods*k.lapses.period(time.Now())/time.Second)
	}
	return o
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

// setProblem records why there is no presence, or that there is one.
func (k *Keeper) setProblem(err error) {
	k.mu.Lock()
	before := k.err
	k.err = err
	k.mu.Unlock()
	if err != nil && (before == nil || err.Error() != before.Error()) {
		k.config.Logger.Error(err, "cannot keep this candidate's presence: people and the other candidates do not know of this one")
		signal(k.config.Failed)
	}
}

// confirmPod returns an error unless the API server knows this candidate's pod.
func (k *Keeper) confirmPod(ctx context.Context) error {
	return k.config.Pod.Confirm(ctx, k.config.Core, k.config.Namespace)
}

// followPeers keeps the peers up to date.
func (k *Keeper) followPeers(ctx context.Context) {
	r, delays := &roster{client: k.config.Client, namespace: k.config.Namespace, lock: k.config.Lock}, k.delays()
	for refused := false; ctx.Err() == nil; {
		k.mu.Lock()
		own := k.own.Number
		k.mu.Unlock()
		began := time.Now()
		err := r.follow(ctx, own, k.setPresences)
		if time.Since(began) > steady {
			refused = false
			delays.Reset()
		}
		if err != nil {
			k.mu.Lock()
			k.lapses.grace(time.Now(), steady)
			k.mu.Unlock()
		}
		if err == nil && time.Since(began) > steady || ctx.Err() != nil {
			continue
		}
		forbidden := errors.Is(err, locks.ErrForbidden)
		if forbidden {
			r.number = 0
			k.setPresences(nil, 0) // the known presences may be outdated
		}
		if forbidden && !refused {
			refused = true
			k.config.Logger.Info("which other candidates there are is not known", "cause", err.Error())
		}
		if sleep.For(ctx, k.retryAfter(err, delays)) == nil && forbidden {
			signal(k.again) // without a watch, a deletion of this candidate's presence goes unnoticed
		}
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
			signal(k.again)
		}
	}
	k.listed = all
	k.lapses = k.lapses.note(all, k.own.Name, time.Now())
	if !k.peersKnown {
		signal(k.Listed)
	}
	k.count()
}

// count has Peers report the candidates that count now, if they have changed. The caller holds mu.
func (k *Keeper) count() {
	k.all, _ = k.lapses.divide(k.listed, time.Now(), 0)
	if peers := peers(k.all); !k.peersKnown || !slices.Equal(peers, k.peers) {
		k.peers, k.peersKnown = peers, true
		signal(k.peersChanged)
	}
}

// All returns the presences of all candidates that are known, and whether anything is known of
// them yet.
func (k *Keeper) All() ([]Object, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all, k.peersKnown
}
