// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package multilock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// participant is any candidate, as its presence object tells of it.
type participant struct {
	lease     lease.Config
	core      rest.Interface
	mode      Mode
	candidate locks.Candidate
	pod       ownerref.Owner
	version   string
	timing    election.Timing
	shielded  bool // the presence keeps a shield
}

// attendance keeps the own presence object, and knows those of all candidates.
type attendance struct {
	who      participant
	alarm    chan struct{}               // gets a word when there is a problem
	present  chan ownerref.Owner         // gets the presence whenever it was made sure of
	podGone  chan error                  // gets ErrPodGone
	again    chan struct{}               // it is to be looked after
	reworded chan struct{}               // the same, but that can wait
	met      chan struct{}               // the peers have changed
	listed   chan struct{}               // they were told for the first time
	made     time.Time                   // when the presence was made last
	remakes  *backoff.ExponentialBackOff // after one that did not stand

	mu      sync.Mutex
	waiting string
	health  advertised
	well    *time.Timer // until the presence may say that all is well again
	err     error
	own     presence.Object // as it was made sure of last
	missing bool            // it was seen to be gone
	peers   []locks.Peer
	known   bool             // peers are told
	keeping []ownerref.Owner // the presences of those among them that keep a shield
}

func newAttendance(p participant, alarm chan struct{}) *attendance {
	most := notPermitted
	if p.shielded {
		most = 5 * p.timing.RenewInterval
	}
	return &attendance{
		health:  advertised{first: p.timing.LeaseDuration, most: 5 * steady},
		remakes: retries(p.timing.RenewInterval/10, most),
		who:     p, alarm: alarm, present: make(chan ownerref.Owner), podGone: make(chan error, 1),
		again: make(chan struct{}, 1), reworded: make(chan struct{}, 1), met: make(chan struct{}, 1),
		listed: make(chan struct{}, 1),
	}
}

// SetUnhealthy has the presence object say why this candidate should not lead;
// empty means that all is well. The first time the object says either at once.
// Where that keeps changing it says that all is well once it has been so for a
// LeaseDuration, and for twice as long after each relapse within a minute, up to
// five minutes. Other words for the same are written once a minute at most. It
// does no I/O.
func (a *attendance) SetUnhealthy(why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	switch a.health.take(why, now) {
	case writeNow:
		signal(a.again)
	case writeLater:
		signal(a.reworded)
	case writeWhenDue:
		if a.well != nil {
			a.well.Stop()
		}
		a.well = time.AfterFunc(a.health.due.Sub(now), func() { signal(a.again) })
	case writeNever:
	}
}

// Peers tells which candidates have a presence object at the lock, in the form of
// [election.Config]. While nothing changes it costs nothing: Attend, without which
// it knows nobody, has one watch for it. Nobody is known, either, where Leases may
// not be listed and watched.
func (a *attendance) Peers(ctx context.Context, tell func([]locks.Peer)) {
	for {
		a.mu.Lock()
		peers, known := a.peers, a.known
		a.mu.Unlock()
		if known {
			tell(peers)
		}
		select {
		case <-a.met:
		case <-ctx.Done():
			return
		}
	}
}

// sayWaiting has the presence say what this candidate waits for.
func (a *attendance) sayWaiting(waiting string) {
	a.mu.Lock()
	a.waiting = waiting
	a.mu.Unlock()
	signal(a.again)
}

// absence is why there is no presence yet; nil if there is one.
func (a *attendance) absence() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// hasPod reports whether there is a pod that a presence can belong to.
func (a *attendance) hasPod() bool { return a.who.pod.Name != "" && a.who.pod.UID != "" }

// pod is the own pod; zero if no presence can belong to it.
func (a *attendance) pod() presence.Pod {
	if !a.hasPod() {
		return presence.Pod{}
	}
	return presence.Pod{Name: a.who.pod.Name, UID: a.who.pod.UID}
}

// keepPresence keeps the presence, and the peers up to date, until ctx ends or
// the own pod is gone.
func (a *attendance) keepPresence(ctx context.Context) {
	var following sync.WaitGroup
	defer following.Wait()
	if !a.hasPod() {
		a.who.lease.Logger.Info("the own pod is not known by name and UID, or is in another namespace than the Lease, so that neither people nor the other candidates know of this one: set POD_NAME and POD_UID by the downward API")
	}
	delays := a.delays()
	for first := true; ; first = false {
		later := time.Duration(-1)
		if a.hasPod() {
			var err error
			if later, err = a.attend(ctx, delays); err != nil {
				select {
				case a.podGone <- err:
				case <-ctx.Done():
				}
				return
			}
		}
		if first { // the first list finds the own presence, then
			following.Go(func() { a.follow(ctx) })
		}
		if !a.await(ctx, later) {
			return
		}
	}
}

// await waits until the presence is to be looked after: at the latest after so
// long, if that is not negative. It reports whether ctx still goes on.
func (a *attendance) await(ctx context.Context, most time.Duration) bool {
	var late <-chan time.Time
	if most >= 0 {
		ready, stop := sleep.After(most)
		defer stop()
		late = ready
	}
	for {
		select {
		case <-a.again:
			return true
		case <-late:
			return true
		case <-a.reworded:
			if late == nil {
				late = time.After(steady)
			}
		case <-ctx.Done():
			return false
		}
	}
}

func (a *attendance) delays() *backoff.ExponentialBackOff {
	interval := a.who.timing.RenewInterval
	return retries(interval/10, 5*interval)
}

// steady is for how long a presence must have stood for its deletion to be the
// work of a hand, and not of a garbage collector that finds no pod, or of some
// other program that deletes it again and again.
const steady = time.Minute

// attend makes sure of the presence. It returns when to do that again without
// being told, negative for never, or ErrPodGone.
func (a *attendance) attend(ctx context.Context, delays *backoff.ExponentialBackOff) (later time.Duration, err error) {
	a.mu.Lock()
	wanted, missing, before := a.presence(), a.missing, a.own.UID
	a.missing = false
	a.mu.Unlock()
	if missing {
		err := a.checkPod(ctx)
		if errors.Is(err, ErrPodGone) {
			return 0, err
		}
		if time.Since(a.made) > steady {
			a.remakes.Reset()
		}
		if atOnce := err == nil && a.who.shielded; !atOnce && sleep.For(ctx, a.remakes.NextBackOff()) != nil {
			return 0, nil
		}
		a.who.lease.Logger.Info("the own presence object was deleted: making it anew")
	}
	limited, cancel := context.WithTimeout(ctx, 2*a.who.timing.AttemptTimeout)
	o, err := presence.Ensure(limited, a.who.lease.Client, a.who.lease.Namespace, wanted)
	cancel()
	if a.note(err); err != nil {
		return a.after(err, delays), nil
	}
	if o.UID != before {
		a.made = time.Now()
	}
	delays.Reset()
	a.mu.Lock()
	a.own = o
	a.mu.Unlock()
	select {
	case a.present <- ownerOf(o):
	case <-ctx.Done():
	}
	return -1, nil
}

// presence is what the presence object is to say. The caller holds mu.
func (a *attendance) presence() presence.Object {
	w := a.who
	return presence.Object{
		Lock: w.lease.Name, Pod: a.pod(),
		Identity: w.candidate.Identity, Zone: w.candidate.Zone, Node: w.candidate.Node,
		Version: w.version, Mode: string(w.mode), Waiting: a.waiting, Unhealthy: a.health.words(time.Now()),
	}
}

// notPermitted is how long after a refusal the next try comes where nothing
// depends on it.
const notPermitted = 10 * time.Minute

// after is how long after an error to try again. The shield depends on the
// presence.
func (a *attendance) after(err error, delays *backoff.ExponentialBackOff) time.Duration {
	if errors.Is(err, locks.ErrForbidden) && !a.who.shielded {
		return notPermitted
	}
	return delays.NextBackOff()
}

// note records why there is no presence, or that there is one.
func (a *attendance) note(err error) {
	a.mu.Lock()
	before := a.err
	a.err = err
	a.mu.Unlock()
	if err != nil && (before == nil || err.Error() != before.Error()) {
		a.who.lease.Logger.Error(err, "cannot keep the own presence object: people and the other candidates do not know of this one")
		signal(a.alarm)
	}
}

// checkPod returns ErrPodGone if the own pod does not exist any more.
func (a *attendance) checkPod(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.who.timing.AttemptTimeout)
	defer cancel()
	object := rawapi.New[corev1.Pod](a.who.core, apierror.Object{
		Resource: apierror.Pods, Namespace: a.who.lease.Namespace, Name: a.who.pod.Name,
	})
	pod, err := object.Get(ctx)
	switch {
	case object.Name().Absent(err):
		return fmt.Errorf("%w: %s", ErrPodGone, a.who.pod)
	case err != nil:
		return fmt.Errorf("look whether the own pod still exists: %w", err)
	case pod.UID != a.who.pod.UID:
		return fmt.Errorf("%w: another pod has the name of %s now", ErrPodGone, a.who.pod)
	}
	return nil
}

// follow keeps the peers up to date.
func (a *attendance) follow(ctx context.Context) {
	begin := func() *presence.Roster {
		return presence.NewRoster(a.who.lease.Client, a.who.lease.Namespace, a.who.lease.Name, a.pod())
	}
	roster, delays := begin(), a.delays()
	for refused := false; ctx.Err() == nil; {
		a.mu.Lock()
		own := a.own.Number
		a.mu.Unlock()
		began := time.Now()
		err := roster.Follow(ctx, own, a.meet)
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
			a.meet(nil, 0) // what was known grows old
		}
		if forbidden && !refused {
			refused = true
			a.who.lease.Logger.Info("which other candidates there are is not known", "cause", err.Error())
		}
		if sleep.For(ctx, a.after(err, delays)) == nil && forbidden {
			signal(a.again) // nobody sees whether the own presence stands
		}
	}
}

// meet takes in which presences there are.
func (a *attendance) meet(all []presence.Object, asOf uint64) {
	a.mu.Lock()
	if own := a.own; own.UID != "" && own.Number <= asOf {
		i := slices.IndexFunc(all, func(o presence.Object) bool { return o.Name == own.Name })
		if a.missing = i < 0; i < 0 || all[i].UID != own.UID {
			signal(a.again)
		}
	}
	a.keeping = keepers(all)
	a.mu.Unlock()
	a.tell(presence.Peers(all))
}

// shielders returns the presences of all candidates that keep a shield, as far as
// is known, and whether anything is known of others yet.
func (a *attendance) shielders() ([]ownerref.Owner, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.keeping, a.known
}

// tell has Peers tell of these, if that is news.
func (a *attendance) tell(peers []locks.Peer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.known {
		signal(a.listed)
	}
	if !a.known || !slices.Equal(peers, a.peers) {
		a.peers, a.known = peers, true
		signal(a.met)
	}
}

// holders returns the presences of all candidates that keep a shield.
func (a *attendance) holders(ctx context.Context) ([]ownerref.Owner, error) {
	all, err := presence.List(ctx, a.who.lease.Client, a.who.lease.Namespace, a.who.lease.Name)
	return keepers(all), err
}

// keepers returns the presences, among all, of the candidates that keep a shield.
// One in mode lease does not (M10).
func keepers(all []presence.Object) []ownerref.Owner {
	var owners []ownerref.Owner
	for _, o := range all {
		if Mode(o.Mode).check() == nil {
			owners = append(owners, ownerOf(o))
		}
	}
	return owners
}

func ownerOf(o presence.Object) ownerref.Owner {
	return ownerref.Owner{Kind: ownerref.Lease, Name: o.Name, UID: o.UID}
}
