// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/environment"
	"github.com/zonelect/zonelect/internal/events"
	"github.com/zonelect/zonelect/internal/extension"
	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/internal/metrics"
	"github.com/zonelect/zonelect/internal/phase"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/proof"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// Group is what the elections of one process in one namespace share, however many they are:
// the connections, one list and one watch of all Leases in the namespace, and one presence
// object. One election that loses its lock, ends, or has slow work disturbs no other.
//
// All candidates of the locks should be in a Group of the same name: the presence object
// says that this process campaigns for them all, which decides who goes first.
//
// Make one with [NewGroup]. Its methods are safe for concurrent use.
type Group struct {
	name        string
	options     Options
	environment *environment.Environment
	clients     *environment.Clients
	keeper      *presence.Keeper
	view        *leasewatch.View
	locks       extension.Locks
	peers       hub[[]locks.Peer]
	zones       hub[string]
	witness     *proof.Witness
	deaths      deaths

	life   sync.Mutex // held while the background work starts or ends
	users  int
	end    func()
	events *election.Feed // of all elections, for Kubernetes Events; nil if none are posted
	feed   *election.Feed // of all elections, for reminders
}

// NewGroup returns what the elections of a process in one namespace share. name is that of
// the program, and must not be empty: the process announces itself under it, and all candidates
// of the locks should use the same. o applies to all elections; o.Name has no meaning. NewGroup
// refuses Disabled and any Mode but ModeLease. Like New, it asks the API server
// only who and where this is.
//
// The background work begins with the first election that runs, and ends with the last. The Run
// of that last one returns when it has ended. An election that begins meanwhile waits for that.
func NewGroup(ctx context.Context, name string, o Options) (*Group, error) {
	return newGroup(ctx, name, o, newLeases)
}

func init() {
	extension.NewGroup = func(ctx context.Context, name string, o any, make func(extension.Place) (extension.Locks, error)) (any, error) {
		return newGroup(ctx, name, o.(Options), make)
	}
}

// newGroup is NewGroup, with locks of another kind.
func newGroup(ctx context.Context, name string, o Options, make func(extension.Place) (extension.Locks, error)) (*Group, error) {
	g, err := prepareGroup(ctx, name, o, make)
	if err != nil {
		return nil, fmt.Errorf("elections of group %q: %w", name, err)
	}
	return g, nil
}

func prepareGroup(ctx context.Context, name string, o Options, make func(extension.Place) (extension.Locks, error)) (*Group, error) {
	o, err := o.resolved()
	if err := errors.Join(err, o.validate(name), o.checkGroup()); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	o.Logger = logger(ctx, o)
	o.tellUnread()
	env, err := o.environment().Find(ctx, environment.Known(o.Self))
	if err != nil {
		return nil, err
	}
	g := &Group{name: name, options: o, environment: env}
	if g.clients, err = env.Clients(); err != nil {
		return nil, err
	}
	g.keeper = env.Keeper(g.clients, name)
	g.witness = env.Witness(g.clients, name, "shared")
	g.deaths.prove = g.witness.Dead
	restarted, err := countRestarts(o.MeterProvider, locks.Description{Kind: "Lease", Namespace: env.Namespace})
	if err != nil {
		return nil, err
	}
	g.view, err = leasewatch.New(leasewatch.Config{
		Client: g.clients.Coordination, Namespace: env.Namespace, Patience: env.Timing.AttemptTimeout, Limit: env.Timing.RenewDeadline,
		Restarted: restarted, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	g.locks, err = make(extension.Place{Environment: env, Name: name, Clients: g.clients, View: g.view, Allow: g.checkLegacy})
	return g, err
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

// checkGroup returns what is wrong with options that many elections are to share.
func (o Options) checkGroup() error {
	var errs []error
	if o.Disabled {
		errs = append(errs, errors.New("leader election is disabled: there is nothing to share"))
	}
	if o.Mode != "" && o.Mode != ModeLease {
		errs = append(errs, fmt.Errorf("mode %s holds a legacy lock too, which cannot be shared: use New for each lock, or mode %s", o.Mode, ModeLease))
	}
	return errors.Join(errs...)
}

// New returns an election for the Lease of that name, with the options of the Group. It does no
// I/O. Two elections for one lock would campaign under one identity: call it once for each.
func (g *Group) New(lock string) (*Election, error) {
	return newElection(context.Background(), lock, g.options, func(*election.Config) {}, g)
}

// Run takes part in the election of that name until ctx ends, see [Run]. Calls for different
// locks may run at the same time.
func (g *Group) Run(ctx context.Context, lock string, lead func(context.Context, election.Term) error) error {
	e, err := g.New(lock)
	if err != nil {
		return err
	}
	return e.Run(ctx, lead)
}

// enter begins the background work for the first election, and posts Events for e. The
// election calls leave when it has ended.
func (g *Group) enter(ctx context.Context, e *Election) (leave func(), err error) {
	g.life.Lock()
	defer g.life.Unlock()
	if g.users == 0 {
		if g.end, err = g.start(context.WithoutCancel(ctx)); err != nil {
			return nil, err
		}
	}
	g.users++
	e.SubscribeTo(g.feed)
	if g.events != nil {
		e.SubscribeTo(g.events)
	}
	return func() {
		g.life.Lock()
		defer g.life.Unlock()
		if g.users--; g.users == 0 {
			g.end()
		}
	}, nil
}

// start begins the background work. What it returns ends that, the locks first.
func (g *Group) start(ctx context.Context) (end func(), err error) {
	rest, endRest := context.WithCancel(ctx)
	var others sync.WaitGroup
	if !g.options.NoEvents {
		g.events = election.NewFeed(rest)
		if err := events.Post(g.environment.Config, g.options.Logger, g.events.Transitions(), &others); err != nil {
			endRest()
			return nil, err
		}
	}
	g.feed = election.NewFeed(rest)
	transitions := g.feed.Transitions()
	others.Go(func() { remind(g.options.Logger, transitions) })
	others.Go(func() { g.view.Run(rest) })
	others.Go(func() { g.keeper.Run(rest) })
	others.Go(func() { g.keeper.Peers(rest, g.peers.set) })
	others.Go(func() {
		g.environment.WatchZone(rest, func(zone string) {
			g.keeper.SetZone(zone)
			g.zones.set(zone)
		})
	})
	others.Go(func() { g.witness.FindContainer(rest) })
	endLocks := g.locks.Start(ctx)
	return func() {
		endLocks()
		endRest()
		others.Wait()
		g.clients.Transport.CloseConnections()
	}, nil
}

// checkLegacy returns an error if a legacy lock of that name counts too (M12).
func (g *Group) checkLegacy(ctx context.Context, name string) error {
	e := g.environment
	legacy, err := ownerref.New(ownerref.Config{Core: g.clients.Core, Namespace: e.Namespace, Name: name})
	if err != nil {
		return err
	}
	return phase.CheckNoLegacy(ctx, legacy, e.Timing, e.Logger)
}

// mostWrites is how many writes of a Group's locks are under way at a time. etcd writes as many
// to its disk together as have come, so that few at a time wait longer than they must. With
// 1,000 locks on two cores, 16 took 4.8 s where 4 took 6.1 s.
const mostWrites = 16

// leases are the locks of a Group, each on a Lease that it writes itself.
type leases struct {
	extension.Place
	places chan struct{} // holds a value for each write under way
}

func newLeases(p extension.Place) (extension.Locks, error) {
	return &leases{p, make(chan struct{}, mostWrites)}, nil
}

// New returns the lock of that name.
func (l *leases) New(name string) (locks.Lock, error) {
	c := l.Lease(l.Clients, name)
	c.Annotate = record.Shared(l.Name, name)
	c.Capabilities.CloseConnections = nil // the others are on them too
	c.Capabilities.Group = l.Name
	g := &groupLock{view: l.View, gate: extension.Gate{Lock: name, Allow: l.Allow}}
	c.Observe = g.gate.Observe
	lock, err := lease.New(c)
	g.Lock = lock
	return g, err
}

// Enter waits for a place. A write that has no answer within an AttemptTimeout leaves its place to
// another one: it may never have an answer.
func (l *leases) Enter(ctx context.Context) (leave func(), err error) {
	select {
	case l.places <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	free := sync.OnceFunc(func() { <-l.places })
	late := time.AfterFunc(l.Timing.AttemptTimeout, free)
	return func() {
		late.Stop()
		free()
	}, nil
}

// Start does nothing: the Group keeps the view.
func (*leases) Start(context.Context) (end func()) { return func() {} }

// Alive returns nil.
func (*leases) Alive() error { return nil }

// groupLock is one lock of a Group.
type groupLock struct {
	*lease.Lock
	view *leasewatch.View
	gate extension.Gate
}

// Write writes the Lease, but refuses to take it where a legacy lock counts too (M12).
func (l *groupLock) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	if err := l.gate.MayWrite(ctx, r); err != nil {
		return locks.Snapshot{}, err
	}
	return l.Lock.Write(ctx, base, r)
}

// Watch follows the Lease in the view of all Leases. It sends no request.
func (l *groupLock) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	return l.view.Watch(ctx, l.gate.Lock, from.Number, func(ctx context.Context, s leasewatch.State) error {
		e := locks.Event{Snapshot: locks.Snapshot{Version: locks.Version{Number: s.Number}}, Gapless: true}
		if s.Lease != nil {
			e.Snapshot = l.Snapshot(s.Lease)
		}
		select {
		case events <- e:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// groupRoster are the candidates of a Group, for one election.
type groupRoster struct{ *Group }

// Peers reports the candidates in Groups of the same name until ctx ends. It returns at once.
func (r groupRoster) Peers(ctx context.Context, tell func([]locks.Peer)) {
	context.AfterFunc(ctx, r.peers.add(tell))
}

// SetUnhealthy has the presence object say why this process should not lead.
func (r groupRoster) SetUnhealthy(why string) { r.keeper.SetUnhealthy(why) }

// SetZone does nothing: the Group tells the zone itself.
func (groupRoster) SetZone(string) {}

// hub passes what is known on to all elections of a Group.
type hub[T any] struct {
	mu    sync.Mutex
	last  T
	known bool
	tells map[*func(T)]struct{}
}

func (h *hub[T]) set(now T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last, h.known = now, true
	for tell := range h.tells {
		(*tell)(now) // it never blocks
	}
}

// add has tell called now, if something is known, and at each change until remove is called.
func (h *hub[T]) add(tell func(T)) (remove func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tells == nil {
		h.tells = map[*func(T)]struct{}{}
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
