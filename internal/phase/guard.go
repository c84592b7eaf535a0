// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// Guard is the [locks.Guardian] of programs that take no part in a migration: their lock is a
// Lease alone. It does not let its candidate campaign while a legacy lock counts too (M12). That
// is so while the phase on the Lease is legacy or dual, or sealed although the legacy lock is an
// election record; and if, at the start or after such a phase, a ConfigMap of the lock's name is
// a leader-for-life lock, or a shield that is not sealed. If the ConfigMap may not be read, it goes
// on without looking, and logs that. Its methods are safe for concurrent use.
type Guard struct {
	*Tracker
	configMap *ownerref.ConfigMap // of the lock's name
	timing    timing.Timing       // of the election, with its defaults
	keeper    *presence.Keeper    // of the candidate's presence; nil if something else keeps it
	log       logr.Logger
}

// NewLease returns the lock on the Lease that c describes, for programs that take no part in a
// migration, or an error that lists what is wrong with c. core talks to the core group. t is the
// election's timing, with its defaults. A [Guard] is its Guardian. It runs the keeper of the candidate's
// presence, if that is not nil.
func NewLease(c lease.Config, core rest.Interface, t timing.Timing, keeper *presence.Keeper) (*lease.Lock, error) {
	configMap, err := ownerref.New(ownerref.Config{Core: core, Namespace: c.Namespace, Name: c.Name})
	g := &Guard{NewTracker(record.Legacy{}), configMap, t, keeper, c.Logger}
	c.Annotate, c.Observe = g.Annotate, g.Observe
	c.Capabilities.Guardian, c.Capabilities.Phases = g, g.Phases
	lock, leaseErr := lease.New(c)
	if err := errors.Join(leaseErr, err, t.Validate()); err != nil {
		return nil, err
	}
	return lock, nil
}

// recheck is how long after a look that failed, or that found a legacy ConfigMap, the next look comes.
const recheck = 2 * time.Second

// Attend says whether this candidate may campaign, as [locks.Guardian] describes, and keeps its presence
// meanwhile.
func (g *Guard) Attend(ctx context.Context, permit func(locks.Permission)) error {
	ctx, cancel := context.WithCancel(ctx)
	var keeping sync.WaitGroup
	defer keeping.Wait()
	defer cancel()
	if g.keeper != nil {
		keeping.Go(func() { _ = g.keeper.Keep(ctx) }) // no shield depends on it
	}
	said := locks.Permission{}
	for {
		stage := g.Stage()
		why := stage.Bars(g.LegacyLock())
		now := locks.Permission{Granted: why == "", Why: why}
		var again <-chan time.Time // the next look
		if now.Granted && !said.Granted {
			if err := g.checkNoLegacy(ctx); err != nil {
				now, again = locks.Permission{Why: err.Error()}, time.After(recheck)
			}
			if g.Stage() != stage {
				continue // the ConfigMap may be of another phase
			}
		}
		if ctx.Err() == nil && now != said {
			said = now
			permit(now)
			if g.keeper != nil {
				g.keeper.SetWaiting(now.Why)
			}
		}
		select {
		case <-g.changed:
		case <-again:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ErrPhase says that the phase on record, or a legacy lock, keeps this kind of candidate out.
var ErrPhase = errors.New("not in this phase")

// checkNoLegacy reads the ConfigMap of the lock's name. It returns an error that wraps
// ErrPhase if a candidate that knows the Lease alone may not campaign beside it. If
// the ConfigMap may not be read, it returns nil and logs that. It has as much patience with the
// server as the election.
func (g *Guard) checkNoLegacy(ctx context.Context) error {
	r, err := rawapi.Ask(ctx, 2*g.timing.RenewDeadline, g.configMap.Read) // the dial and the answer may take a RenewDeadline each
	switch {
	case errors.Is(err, locks.ErrForbidden):
		g.log.Info("it is not known whether a legacy ConfigMap exists: this candidate may not read it", "cause", err.Error())
		return nil
	case err != nil:
		return err
	case r.Kind == ownerref.Legacy:
		return fmt.Errorf("%w: the ConfigMap %s is a leader-for-life lock of pod %s: run this candidate in mode auto, "+
			"or delete that ConfigMap if no program uses it any more", ErrPhase, g.configMap.Name(), r.Owner.Name)
	case r.Kind == ownerref.Shield:
		return fmt.Errorf("%w: the ConfigMap %s is a shield that is not sealed, and goes with the candidates that own it: "+
			"the leader seals it in phase sealed; until then run this candidate in mode auto", ErrPhase, g.configMap.Name())
	}
	return nil
}

// Adopt lets the work begin at once.
func (g *Guard) Adopt(ctx context.Context, _ locks.Term, permit func(locks.Permission)) error {
	permit(locks.Permission{Granted: true})
	<-ctx.Done()
	return context.Cause(ctx)
}
