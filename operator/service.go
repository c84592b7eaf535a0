// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/leaderservice"
	"github.com/zonelect/zonelect/internal/transport"
)

// eager is how a new leader dials. One dial of three may lead to the API server of the zone that has
// lost its power: a Service VIP forgets it about when the next leader is elected. A single process
// dials, so that this is no storm.
var eager = transport.Options{DialInterval: 20 * time.Millisecond, Dials: 5}

// prepareService makes what points the Service of the options to this process. It has
// connections of its own, so that it delays no renewal.
func (e *Election) prepareService() error {
	name, env := e.options.LeaderService, e.environment
	self, t := env.Self, env.Timing
	clients, err := env.ClientsThat(eager)
	if err != nil {
		return fmt.Errorf("preparing to point service %q to the leader: %w", name, err)
	}
	e.service, err = leaderservice.New(leaderservice.Config{
		Core: clients.Core, Discovery: clients.Discovery, Namespace: cmp.Or(self.Namespace, env.Namespace), Service: name,
		Endpoint: leaderservice.Endpoint{IP: self.IP, Pod: self.PodName, PodUID: self.PodUID, Node: self.Node, Zone: self.Zone},
		Labels:   env.Labels,
		Trust:    t.RenewDeadline, Again: t.LeaseDuration, Logger: e.log,
	})
	e.closers = append(e.closers, clients.Transport.CloseConnections)
	return err
}

// pointing is lead, with the Service of the options pointing to this process meanwhile. The
// lock is not kept until the Service points elsewhere: running waits for that.
func (e *Election) pointing(lead func(context.Context, election.Term) error, running *sync.WaitGroup) func(context.Context, election.Term) error {
	if e.service == nil {
		return lead
	}
	return func(ctx context.Context, term election.Term) error {
		leading, end := context.WithCancel(ctx)
		defer end()
		running.Go(func() { e.service.Keep(leading, term.Token, term) })
		return lead(ctx, term)
	}
}
