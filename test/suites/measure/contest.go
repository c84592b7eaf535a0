// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/sleep"
)

// contest is candidates of one kind for one lock.
type contest struct {
	ctx  context.Context // ends all candidates
	all  sync.WaitGroup
	cfg  *rest.Config
	kind kind
	lock string

	seats  []*candidate
	leader *candidate
	terms  chan led
	starts int
}

// candidate is one candidacy, from its start on.
type candidate struct {
	elector
	identity string
	wire     *wire
	stop     context.CancelFunc // in good order
	done     chan struct{}      // closed when it has stopped
	err      error              // read it after done
}

// led is the beginning of a term: when the work began to run, and whose.
type led struct {
	by *candidate
	at time.Time
}

// newContest starts the candidates, which end with ctx, and waits until one leads.
func newContest(ctx context.Context, cfg *rest.Config, k kind, lock string, seats int) (*contest, error) {
	c := &contest{ctx: ctx, cfg: cfg, kind: k, lock: lock, terms: make(chan led)}
	for range seats {
		seat, err := c.start()
		if err != nil {
			return c, err
		}
		c.seats = append(c.seats, seat)
	}
	first, err := c.next()
	c.leader = first.by
	return c, err
}

// start starts another candidate.
func (c *contest) start() (*candidate, error) {
	c.starts++
	n := &candidate{identity: fmt.Sprintf("%s-%d", c.lock, c.starts), wire: &wire{}, done: make(chan struct{})}
	leading := func(work context.Context) {
		select {
		case c.terms <- led{n, time.Now()}:
			<-work.Done()
		case <-work.Done():
		}
	}
	var err error
	if n.elector, err = c.kind(n.wire.config(c.cfg), c.lock, n.identity, leading); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(c.ctx)
	n.stop = stop
	c.all.Go(func() {
		defer close(n.done)
		n.err = n.run(ctx)
	})
	return n, nil
}

// settle waits until all others follow the leader.
func (c *contest) settle() error {
	for _, s := range c.seats {
		for s != c.leader && !s.follows(c.leader.identity) {
			if err := sleep.For(c.ctx, 2*time.Millisecond); err != nil {
				return fmt.Errorf("%s does not follow %s: %w", s.identity, c.leader.identity, err)
			}
		}
	}
	return sleep.For(c.ctx, 20*time.Millisecond) // until the watches are established
}

// next waits for the next term.
func (c *contest) next() (led, error) {
	select {
	case l := <-c.terms:
		return l, nil
	case <-c.ctx.Done():
		return led{}, fmt.Errorf("wait for the next leader of %s: %w", c.lock, c.ctx.Err())
	}
}

// succeed waits for the next leader, and replaces the old one with a new
// candidate.
func (c *contest) succeed() (led, error) {
	next, err := c.next()
	if err != nil {
		return led{}, err
	}
	seat := slices.Index(c.seats, c.leader)
	c.leader = next.by
	c.seats[seat], err = c.start()
	return next, err
}
