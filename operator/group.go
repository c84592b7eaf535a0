// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/environment"
	"github.com/zonelect/zonelect/internal/phase"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/locks"
)

// Group is what several elections of one process in one namespace share: the clients and their
// connections, the identity, and one presence object. Each lock has its own watch and renews
// by itself. One election that loses its lock, ends, or has slow work disturbs no other.
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
	zone        string        // once zoned is closed
	zoned       chan struct{} // closed when the zone of this process has become known after the start
	knowsZone   sync.Once

	life  sync.Mutex // held while the background work starts or ends
	users int
	end   func()
}

// NewGroup returns what several elections of a process in one namespace share. name is that of
// the program, and must not be empty: the process announces itself under it, and all candidates
// of the locks should use the same. o applies to all elections; o.Name has no meaning. NewGroup
// refuses Disabled and any Mode but ModeLease. Like New, it asks the API server
// only for this node's zone.
//
// The background work begins with the first election that runs, and ends with the last. The Run
// of that last one returns when it has ended. An election that begins meanwhile waits for that.
func NewGroup(ctx context.Context, name string, o Options) (*Group, error) {
	g, err := newGroup(ctx, name, o)
	if err != nil {
		return nil, fmt.Errorf("elections of group %q: %w", name, err)
	}
	return g, nil
}

func newGroup(ctx context.Context, name string, o Options) (*Group, error) {
	if err := errors.Join(o.validate(name), o.checkGroup()); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	o.Logger = logger(ctx, o)
	env, err := o.environment().Find(ctx, environment.Self(o.Self))
	if err != nil {
		return nil, err
	}
	clients, err := env.Clients()
	if err != nil {
		return nil, err
	}
	return &Group{
		name: name, options: o, environment: env, clients: clients,
		keeper: env.Keeper(clients, name), zoned: make(chan struct{}),
	}, nil
}

// checkGroup returns what is wrong with options that many elections are to share.
func (o Options) checkGroup() error {
	var errs []error
	if o.Disabled {
		errs = append(errs, errors.New("leader election is disabled: there is nothing to share"))
	}
	if mode := o.Legacy.mode(); mode != ModeLease {
		errs = append(errs, fmt.Errorf("mode %s holds a legacy lock too, which no Group shares: use New for each, or mode %s", mode, ModeLease))
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

// lock returns the lock of that name. It does not campaign where a legacy lock counts too (M12).
func (g *Group) lock(name string) (locks.Lock, error) {
	c := g.environment.Lease(g.clients, name)
	c.Capabilities.CloseConnections = nil // the others are on them too
	c.Capabilities.Group = g.name
	return phase.NewLease(c, g.clients.Core, g.environment.Timing, nil)
}

// enter begins the background work for the first election. Each election calls leave when it has
// ended.
func (g *Group) enter(ctx context.Context) (leave func()) {
	g.life.Lock()
	defer g.life.Unlock()
	if g.users == 0 {
		g.end = g.start(context.WithoutCancel(ctx))
	}
	g.users++
	return func() {
		g.life.Lock()
		defer g.life.Unlock()
		if g.users--; g.users == 0 {
			g.end()
		}
	}
}

// start begins the background work. What it returns ends that.
func (g *Group) start(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	wait.Go(func() { _ = g.keeper.Keep(ctx) }) // no shield depends on it
	wait.Go(func() {
		g.environment.WatchZone(ctx, func(zone string) {
			g.keeper.SetZone(zone)
			g.knowsZone.Do(func() {
				g.zone = zone
				close(g.zoned)
			})
		})
	})
	return func() {
		cancel()
		wait.Wait()
		g.clients.Transport.CloseConnections()
	}
}

// watchZone reports the zone of this process to one election.
func (g *Group) watchZone(ctx context.Context, tell func(zone string)) {
	select {
	case <-g.zoned:
		tell(g.zone)
	case <-ctx.Done():
	}
}

// groupRoster are the candidates in Groups of the same name, for one election.
type groupRoster struct{ *presence.Keeper }

// SetZone does nothing: the Group tells the zone itself.
func (groupRoster) SetZone(string) {}
