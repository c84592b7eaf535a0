// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
)

// bootAll boots zones at the same time.
func (p *Parts) bootAll(ctx context.Context, zones []*zone) error {
	failures := make([]error, len(zones))
	var all sync.WaitGroup
	for i, z := range zones {
		all.Go(func() { failures[i] = p.boot(ctx, z) })
	}
	all.Wait()
	return errors.Join(failures...)
}

// boot starts a zone's control plane and its kubelet, and waits until they are
// ready. It touches nothing but this zone.
func (p *Parts) boot(ctx context.Context, z *zone) error {
	var err error
	if !p.config.Programs.Embedded() {
		if z.etcd, err = p.startEtcd(z); err != nil {
			return err
		}
		if err := p.waitForEtcd(ctx, z.name, z.etcd); err != nil {
			return err
		}
	}
	if z.apiserver, err = p.startAPIServer(z); err != nil {
		return err
	}
	if err := p.waitForAPIServer(ctx, z.name, z.apiserver); err != nil {
		return err
	}
	z.ready, z.expired = true, false
	if p.config.WithoutNodes {
		return nil
	}
	z.kubelet, err = startKubelet(ctx, z.name, p.restConfig(z.name))
	return err
}

func (p *Parts) startEtcd(z *zone) (*task, error) {
	return p.startPart(z, "etcd", p.config.Programs.etcd, p.etcdFlags(z.name), p.fabric.environ(z.name))
}

func (p *Parts) startAPIServer(z *zone) (*task, error) {
	flags := p.frontFlags
	if !p.config.Programs.Embedded() {
		flags = p.apiserverFlags
	}
	return p.startPart(z, "apiserver", p.config.Programs.apiserver, flags(z.name), nil)
}

func (p *Parts) waitForEtcd(ctx context.Context, zone string, part *task) error {
	err := p.waitFor(ctx, part, "http://"+p.fabric.site(zone).etcd+"/health")
	if err == nil {
		p.say("zone %s: etcd is ready", zone)
	}
	return err
}

func (p *Parts) waitForAPIServer(ctx context.Context, zone string, part *task) error {
	err := p.waitFor(ctx, part, p.fabric.observe(zone)+"/readyz")
	if err == nil {
		p.say("zone %s: the apiserver is ready", zone)
	}
	return err
}

// startPart starts a part of the control plane inside a zone.
func (p *Parts) startPart(z *zone, role string, program, flags, env []string) (*task, error) {
	return p.launcher.start(command{
		name: role + " of zone " + z.name,
		argv: p.fabric.inside(z.name, append(slices.Clone(program), flags...)),
		env:  env, dir: p.dir, stderr: filepath.Join(p.dir, z.name, role+".log"),
	})
}
