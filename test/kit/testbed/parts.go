// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
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
	if len(names) == 0 {
		names = slices.DeleteFunc(slices.Clone(p.config.Zones), func(name string) bool { return p.zones[name].dark })
	}
	var touched []*zone
	var errs []error
	for _, name := range names {
		z, running, err := p.find(name, part)
		if err == nil {
			touched = append(touched, z)
			err = p.signal(running, freeze)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("pause or resume the %s of zone %s: %w", part, name, err))
		}
	}
	return errors.Join(append(errs, p.review(touched...))...)
}

// signal freezes a part, or lets it go on.
func (p *Parts) signal(running *task, freeze bool) error {
	signal := map[bool]os.Signal{true: syscall.SIGSTOP, false: syscall.SIGCONT}[freeze]
	if err := running.process.Signal(signal); err != nil {
		return fmt.Errorf("send %s: %w", signal, err)
	}
	running.paused = freeze
	p.say("%s: %s", running.name, signal)
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
	z, running, err := p.find(zone, part)
	if err == nil {
		err = running.kill(ctx)
	}
	if err != nil {
		return fmt.Errorf("kill the %s of zone %s: %w", part, zone, err)
	}
	p.say("%s: killed", running.name)
	return p.review(z)
}

// Start starts a part that Kill has ended, and waits until it is ready. An etcd
// member is not ready before it has a quorum. Other methods need not wait for
// Start, so several parts can be started at the same time. A part that runs is
// left alone.
func (p *Parts) Start(ctx context.Context, part Part, zone string) error {
	started, err := p.startAgain(part, zone)
	if err == nil {
		err = p.await(ctx, zone, part, started)
	}
	if err != nil {
		return fmt.Errorf("start the %s of zone %s: %w", part, zone, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	z, _, err := p.find(zone, part)
	if err != nil {
		return err
	}
	return p.review(z)
}

// startAgain starts a part that has ended.
func (p *Parts) startAgain(part Part, zone string) (*task, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	z, last, err := p.find(zone, part)
	if err != nil || !last.ended() {
		return last, err
	}
	return p.run(z, part)
}

// RestartAPIServer kills a zone's apiserver and starts it again.
func (p *Parts) RestartAPIServer(ctx context.Context, zone string) error {
	if err := p.Kill(ctx, APIServer, zone); err != nil {
		return err
	}
	return p.Start(ctx, APIServer, zone)
}

// find finds a part of a zone that has power: the one that runs, or that ran last.
func (p *Parts) find(name string, part Part) (*zone, *task, error) {
	z, err := p.poweredZone(name)
	if err != nil {
		return nil, nil, err
	}
	if z.parts[part] == nil {
		return nil, nil, fmt.Errorf("there is no %s", part) // an embedded API server has no etcd
	}
	return z, z.parts[part], nil
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
