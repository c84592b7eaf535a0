// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Parts are the parts of the control plane in the zones: etcd's members and the
// apiservers.
type Parts struct{ *routes }

// Part is a part of the control plane that every zone has.
type Part string

// The parts.
const (
	Etcd      Part = "etcd"
	APIServer Part = "apiserver"
)

// Pause freezes a part of the control plane (SIGSTOP) in these zones; with none
// named, in all that have power. When it returns the part is frozen: its
// connections stay open, and nobody answers on them. If other zones go on,
// virtual IPs drop a frozen apiserver after EndpointLease. Nothing can be
// restored before Resume.
func (p *Parts) Pause(part Part, zones ...string) error {
	return p.signalParts(part, true, zones)
}

// Resume lets a part that was paused go on, in these zones or in all.
func (p *Parts) Resume(part Part, zones ...string) error {
	return p.signalParts(part, false, zones)
}

// signalParts freezes a part or lets it go on.
func (p *Parts) signalParts(part Part, freeze bool, names []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	zones, err := p.poweredZones(names)
	if err != nil {
		return fmt.Errorf("pause or resume the %s: %w", part, err)
	}
	var errs []error
	for _, z := range zones {
		if err := p.signalPart(z, part, freeze); err != nil {
			errs = append(errs, fmt.Errorf("zone %s: %w", z.name, err))
		}
	}
	return errors.Join(append(errs, p.review(zones...))...)
}

// signalPart freezes a zone's part, or lets it go on.
func (p *Parts) signalPart(z *zone, part Part, freeze bool) error {
	running, err := z.part(part)
	if err != nil {
		return err
	}
	signal := map[bool]os.Signal{true: syscall.SIGSTOP, false: syscall.SIGCONT}[freeze]
	if err := running.process.Signal(signal); err != nil {
		return fmt.Errorf("send %s to the %s: %w", signal, part, err)
	}
	running.paused = freeze
	p.say("zone %s: %s to the %s", z.name, signal, part)
	if !freeze {
		return nil
	}
	return running.awaitStill(p.ctx)
}

// Kill kills a part of the control plane in a zone. Everything else in the zone
// goes on; new connections to the part are refused. Virtual IPs keep leading
// there for EndpointLease.
func (p *Parts) Kill(ctx context.Context, part Part, zone string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	z, err := p.poweredZone(zone)
	if err != nil {
		return fmt.Errorf("kill the %s of zone %s: %w", part, zone, err)
	}
	running, err := z.part(part)
	if err == nil {
		err = running.kill(ctx)
	}
	if err != nil {
		return fmt.Errorf("kill the %s of zone %s: %w", part, zone, err)
	}
	p.say("zone %s: the %s was killed", zone, part)
	return p.review(z)
}

// Start starts a part that Kill has ended, and waits until it is ready. An etcd
// member is not ready before it has a quorum. Other methods need not wait for
// Start, so several parts can be started at the same time. A part that runs is
// left alone.
func (p *Parts) Start(ctx context.Context, part Part, zone string) error {
	started, err := p.startAgain(part, zone)
	if err == nil {
		err = p.waitForPart(ctx, part, zone, started)
	}
	if err != nil {
		return fmt.Errorf("start the %s of zone %s: %w", part, zone, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	z, err := p.poweredZone(zone)
	if err != nil {
		return fmt.Errorf("start the %s of zone %s: %w", part, zone, err)
	}
	return p.review(z)
}

// startAgain starts a part that has ended.
func (p *Parts) startAgain(part Part, zone string) (*task, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	z, err := p.poweredZone(zone)
	if err != nil {
		return nil, err
	}
	last, err := z.part(part)
	if err != nil {
		return nil, err
	}
	if !last.ended() {
		return last, nil
	}
	if part == Etcd {
		z.etcd, err = p.startEtcd(z)
		return z.etcd, err
	}
	z.apiserver, err = p.startAPIServer(z)
	return z.apiserver, err
}

// waitForPart waits until a part that was started is ready.
func (p *Parts) waitForPart(ctx context.Context, part Part, zone string, started *task) error {
	if part == Etcd {
		return p.waitForEtcd(ctx, zone, started)
	}
	return p.waitForAPIServer(ctx, zone, started)
}

// RestartAPIServer kills a zone's apiserver and starts it again.
func (p *Parts) RestartAPIServer(ctx context.Context, zone string) error {
	if err := p.Kill(ctx, APIServer, zone); err != nil {
		return err
	}
	return p.Start(ctx, APIServer, zone)
}

// part returns a zone's running part, or the one that ran last. The zone has
// power.
func (z *zone) part(part Part) (*task, error) {
	switch part {
	case Etcd:
		if z.etcd == nil {
			return nil, errors.New("an embedded API server has no etcd")
		}
		return z.etcd, nil
	case APIServer:
		return z.apiserver, nil
	default:
		return nil, fmt.Errorf("there is no part %q: use %s or %s", part, Etcd, APIServer)
	}
}

// review finds out which of these zones have become healthy or unhealthy, and
// what that means for the virtual IPs: an apiserver that does not serve loses its
// endpoint lease, if there is another that can remove it. The caller holds mu.
func (p *Parts) review(zones ...*zone) error {
	_, others := p.livingZone("")
	for _, z := range zones {
		z.epoch++
		switch {
		case p.well(z) && !p.cutOff(z.name):
			z.expired = false
		case others:
			p.expireLater(z)
		}
	}
	return p.settle(p.ctx)
}
