// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/internal/metrics"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/proof"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/heartbeat"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// Shared is what the elections of one process in one namespace share, however many they are:
// the connections, one list and one watch of all Leases in the namespace, one presence
// object, and with Options.Heartbeat one heartbeat that keeps all locks. One election that
// loses its lock, ends, or has slow work disturbs no other.
//
// All candidates of the locks should be in a Shared of the same name: the presence object
// says that this process campaigns for them all, which decides who goes first.
//
// Make one with [NewShared]. Its methods are safe for concurrent use.
type Shared struct {
	name      string
	options   Options
	election  *Election // has what all share; it never runs
	clients   *apiClients
	group     *multilock.LeaseOnly // keeps the presence object, and knows those of others
	locks     heartbeat.Config
	hearts    *apiClients       // nil without a heartbeat
	heartbeat *election.Elector // the same
	candidate locks.Candidate
	peers     peerHub
	witness   *proof.Witness
	deaths    deaths
	told      sync.Once // that the heartbeat's Lease stays

	life   sync.Mutex // held while the background work starts or ends
	users  int
	end    func()
	events *election.Feed // of all elections, for Kubernetes Events; nil if none are posted
	feed   *election.Feed // of all elections, for reminders
}

// mostWrites is how many writes of a Shared's locks are under way at a time. etcd writes as many
// to its disk together as have come, so that few at a time wait longer than they must. With
// 1,000 locks on two cores, 16 took 4.8 s where 4 took 6.1 s.
const mostWrites = 16

// NewShared returns what the elections of a process in one namespace share. name is that of
// the program, and must not be empty: the process announces itself under it, and all candidates
// of the locks should use the same. o applies to all elections; o.Name has no meaning. NewShared
// refuses Disabled, LeaderService, any Mode but ModeLease, and Heartbeat without
// Timing.Exclusive. Like New, it asks the API server only for this node's zone.
//
// The background work begins with the first election that runs, and ends with the last. The Run
// of that last one returns when it has ended. With Heartbeat it first writes the releases that
// only a note tells of (rule L8), for a RenewDeadline at most. Then it releases the heartbeat, and
// deletes the heartbeat's Lease if no lock names it any longer. An election that begins meanwhile
// waits for that.
func NewShared(ctx context.Context, name string, o Options) (*Shared, error) {
	s, err := newShared(ctx, name, o)
	if o.LeaderService != "" {
		several := fmt.Errorf("service %q can point to one leader, and the locks of a Shared may have several: use an election of its own for it", o.LeaderService)
		return nil, errors.Join(fmt.Errorf("shared elections %q: %w", name, several), err)
	}
	return s, err
}

// newShared is NewShared, also for the one lock of an election, to whose leader a Service may
// point.
func newShared(ctx context.Context, name string, o Options) (*Shared, error) {
	s, err := prepareShared(ctx, name, o)
	if err != nil {
		return nil, fmt.Errorf("shared elections %q: %w", name, err)
	}
	return s, nil
}

func prepareShared(ctx context.Context, name string, o Options) (*Shared, error) {
	o, err := o.resolved()
	if err := errors.Join(err, o.validate(name), o.checkShared()); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	o.Logger, o.goesFirst = logger(ctx, o), o.advertisedStart()
	o.tellUnread()
	s := &Shared{name: name, options: o, election: &Election{options: o, log: o.Logger}}
	namespace, err := s.election.locate(ctx)
	if err != nil {
		return nil, err
	}
	self := s.election.self
	s.candidate = self.Candidate()
	if s.clients, err = newAPIClients(s.election.config, o.Timing, o.LockOptions); err != nil {
		return nil, err
	}
	if s.group, err = multilock.NewLeaseOnly(s.clients.multilock(o.Timing, self, namespace, name)); err != nil {
		return nil, err
	}
	s.witness = proof.New(proof.Config{
		Lock: namespace + "/" + name, Scope: "shared", Namespace: cmp.Or(self.Namespace, namespace),
		PodName: self.PodName, PodUID: self.PodUID, Container: self.Container, Unproven: o.Unproven, Patience: patienceOf(o.Timing),
		Pods: s.clients.core, Logger: o.Logger,
	})
	s.deaths.prove = s.witness.Dead
	t := o.Timing.WithDefaults()
	restarted, err := countRestarts(o.MeterProvider, locks.Description{Kind: "Lease", Namespace: namespace})
	if err != nil {
		return nil, err
	}
	view, err := leasewatch.New(leasewatch.Config{
		Client: s.clients.coordination, Namespace: namespace, Patience: t.AttemptTimeout, Limit: t.RenewDeadline,
		Restarted: restarted, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	s.locks = heartbeat.Config{
		Client: s.clients.coordination, Namespace: namespace, View: view, Writes: heartbeat.NewWrites(mostWrites),
		Allow: s.checkLegacy, Shared: name, Labels: o.Labels, Logger: o.Logger,
	}
	if o.Heartbeat {
		err = s.prepareHeartbeat(self, t)
	}
	return s, err
}

// countRestarts returns what counts the restarts of the watch of all Leases; nil if nobody
// wants metrics.
func countRestarts(provider metric.MeterProvider, of locks.Description) (func(replaced bool, err error), error) {
	if provider == nil {
		return nil, nil
	}
	instruments, err := metrics.New(provider)
	return func(replaced bool, err error) {
		after := metrics.Result(err)
		if replaced {
			after = metrics.WatchReplaced
		}
		where := metric.WithAttributes(append(metrics.Place(of), metrics.KeyResult.String(after))...)
		instruments.WatchRestarts.Add(context.Background(), 1, where)
	}, err
}

// checkShared returns what is wrong with options that many elections are to share.
func (o Options) checkShared() error {
	var errs []error
	if o.Disabled {
		errs = append(errs, errors.New("leader election is disabled: there is nothing to share"))
	}
	if o.Mode != "" && o.Mode != ModeLease {
		errs = append(errs, fmt.Errorf("mode %s holds a legacy lock too, which cannot be shared: use New for each lock, or mode %s", o.Mode, ModeLease))
	}
	if o.Heartbeat && !o.Timing.Exclusive {
		errs = append(errs, errors.New("a Heartbeat is wanted, but Timing.Exclusive is not: if a candidate that does not know heartbeats, such as client-go's, may share a lock, it would not take over from a dead leader: set Timing.Exclusive if none does, or leave Heartbeat off"))
	}
	return errors.Join(errs...)
}

// prepareHeartbeat makes the heartbeat, on connections of its own.
func (s *Shared) prepareHeartbeat(self Self, t election.Timing) error {
	o := s.options.LockOptions
	var err error
	if s.hearts, err = newAPIClients(s.election.config, t, o); err != nil {
		return err
	}
	c := s.hearts.lease(s.locks.Namespace, heartName(s.name))
	c.Logger = o.Logger.WithName("heartbeat")
	if pod := self.podIn(c.Namespace); pod.Name != "" && pod.UID != "" {
		c.Owners = s.ownedBy(presence.Pod{Name: pod.Name, UID: pod.UID}, t.AttemptTimeout, c.Logger)
	}
	if s.locks.Heart, err = heartbeat.NewHeart(heartbeat.HeartConfig{Lease: c, View: s.locks.View, Writes: s.locks.Writes, Identity: self.Identity, Timing: t}); err != nil {
		return err
	}
	s.heartbeat, err = election.New(election.Config{
		Lock: s.locks.Heart, Candidate: s.candidate, Timing: t, Logger: c.Logger,
		HeadStart: func(election.Takeover) time.Duration { return 0 }, // nobody else campaigns
	})
	return err
}

// ownedBy returns what asks the API server for the pod that is to own the heartbeat's Lease. If it
// does not know the pod, or does not say, the Lease has no owner.
func (s *Shared) ownedBy(pod presence.Pod, patience time.Duration, log logr.Logger) func(context.Context) []metav1.OwnerReference {
	var told sync.Once
	return func(ctx context.Context) []metav1.OwnerReference {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if err := pod.Confirm(ctx, s.hearts.core, s.locks.Namespace); err != nil {
			told.Do(func() {
				log.Info("the Lease of the heartbeat has no owner: it stays if this process does not end in good order", "cause", err.Error())
			})
			return nil
		}
		return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}
	}
}

// heartName is the name of the Lease of a heartbeat. It is another one each time, because a
// process that has ended does not release the locks that its heartbeat kept.
func heartName(name string) string {
	end := ".heartbeat-" + strings.ToLower(rand.Text()[:10])
	return strings.TrimRight(name[:min(len(name), validation.DNS1123SubdomainMaxLength-len(end))], "-.") + end
}

// New returns an election for the Lease of that name, with the options of the Shared. It does no
// I/O. Two elections for one lock would campaign under one identity: call it once for each.
func (s *Shared) New(lock string) (*Election, error) {
	return newElection(context.Background(), lock, s.options, func(*election.Config) {}, s)
}

// Run takes part in the election of that name until ctx ends, see [Run]. Calls for different
// locks may run at the same time.
func (s *Shared) Run(ctx context.Context, lock string, lead func(context.Context, election.Term) error) error {
	e, err := s.New(lock)
	if err != nil {
		return err
	}
	return e.Run(ctx, lead)
}

// enter begins the background work for the first election, and posts Events for e. The
// election calls leave when it has ended.
func (s *Shared) enter(ctx context.Context, e *Election) (leave func(), err error) {
	s.life.Lock()
	defer s.life.Unlock()
	if s.users == 0 {
		if s.end, err = s.start(context.WithoutCancel(ctx)); err != nil {
			return nil, err
		}
	}
	s.users++
	e.SubscribeTo(s.feed)
	if s.events != nil {
		e.SubscribeTo(s.events)
	}
	return func() {
		s.life.Lock()
		defer s.life.Unlock()
		if s.users--; s.users == 0 {
			s.end()
		}
	}, nil
}

// start begins the background work. What it returns ends that, the heartbeat first, which
// releases its Lease.
func (s *Shared) start(ctx context.Context) (end func(), err error) {
	rest, endRest := context.WithCancel(ctx)
	var beating, others sync.WaitGroup
	if !s.options.NoEvents {
		s.events = election.NewFeed(rest)
		if err := s.election.postEvents(s.events.Transitions(), &others); err != nil {
			endRest()
			return nil, err
		}
	}
	s.feed = election.NewFeed(rest)
	transitions := s.feed.Transitions()
	others.Go(func() { remind(s.options.Logger, transitions) })
	others.Go(func() { s.locks.View.Run(rest) })
	others.Go(func() { _ = s.group.Attend(rest, func(locks.Permission) {}) }) // it ends with rest, and the presence decides nothing
	others.Go(func() { s.group.Peers(rest, s.peers.set) })
	others.Go(func() { s.witness.FindContainer(rest) })
	heart, endHeart := context.WithCancel(ctx)
	if s.heartbeat != nil {
		beating.Go(func() {
			err := s.heartbeat.Run(heart, func(ctx context.Context, _ election.Term) error { <-ctx.Done(); return nil })
			if err != nil {
				s.options.Logger.Error(err, "the heartbeat has ended")
			}
		})
	}
	return func() {
		if s.locks.Heart != nil {
			s.locks.Heart.Settle(ctx)
		}
		endHeart()
		beating.Wait()
		if s.locks.Heart != nil {
			s.removeHeart(ctx)
		}
		endRest()
		others.Wait()
		if s.hearts != nil {
			s.hearts.transport.CloseConnections()
		}
		s.clients.transport.CloseConnections()
	}, nil
}

// removeHeart deletes the heartbeat's Lease, see [heartbeat.Heart.Remove].
func (s *Shared) removeHeart(ctx context.Context) {
	if err := s.locks.Heart.Remove(ctx); err != nil {
		s.told.Do(func() {
			s.options.Logger.Info("the Lease of the heartbeat stays, and is of no use any more", "cause", err.Error())
		})
	}
}

// lock returns the lock of that name.
func (s *Shared) lock(name string) (locks.Lock, error) {
	lock, err := s.locks.New(name)
	return &sharedLock{Lock: lock, shared: s}, err
}

// checkLegacy returns an error if a legacy lock of that name counts too (M12).
func (s *Shared) checkLegacy(ctx context.Context, name string) error {
	legacy, err := ownerref.New(ownerref.Config{Core: s.clients.core, Namespace: s.locks.Namespace, Name: name, Logger: s.options.Logger})
	if err != nil {
		return err
	}
	return multilock.CheckNoLegacy(ctx, legacy, s.options.Timing.WithDefaults(), s.options.Logger)
}

// sharedLock is one lock of a Shared.
type sharedLock struct {
	*heartbeat.Lock
	shared *Shared
}

// Write writes the Lease, but refuses to take it where a legacy lock counts too (M12).
func (l *sharedLock) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	if err := multilock.CheckTaking(base, r); err != nil {
		return locks.Snapshot{}, err
	}
	return l.Lock.Write(ctx, base, r)
}

// Peers reports the candidates in Shareds of the same name until ctx ends. It returns at once.
func (l *sharedLock) Peers(ctx context.Context, tell func([]locks.Peer)) {
	context.AfterFunc(ctx, l.shared.peers.add(tell))
}

// SetUnhealthy has the presence object say why this process should not lead.
func (l *sharedLock) SetUnhealthy(why string) { l.shared.group.SetUnhealthy(why) }

// peerHub passes the peers on to all elections of a Shared.
type peerHub struct {
	mu    sync.Mutex
	last  []locks.Peer
	known bool
	tells map[*func([]locks.Peer)]struct{}
}

func (h *peerHub) set(peers []locks.Peer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last, h.known = peers, true
	for tell := range h.tells {
		(*tell)(peers) // it never blocks
	}
}

// add has tell called now, if the peers are known, and at each change until remove is called.
func (h *peerHub) add(tell func([]locks.Peer)) (remove func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tells == nil {
		h.tells = map[*func([]locks.Peer)]struct{}{}
	}
	h.tells[&tell] = struct{}{}
	if h.known {
		tell(h.last)
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.tells, &tell)
	}
}
