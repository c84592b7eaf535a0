// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"
)

// bootAll boots zones at the same time.
func (p *Parts) bootAll(ctx context.Context, zones []*zone) error {
	var all errgroup.Group
	for _, z := range zones {
		all.Go(func() error { return p.boot(ctx, z) })
	}
	return all.Wait()
}

// boot starts a zone's control plane and its kubelet, and waits until they are
// ready. It touches nothing but this zone.
func (p *Parts) boot(ctx context.Context, z *zone) error {
	for _, part := range []Part{Etcd, APIServer} {
		if part == Etcd && p.config.Programs.Embedded() {
			continue
		}
		started, err := p.run(z, part)
		if err != nil {
			return err
		}
		if err := p.await(ctx, z.name, part, started); err != nil {
			return err
		}
	}
	z.ready, z.expired = true, false
	if p.config.WithoutNodes {
		return nil
	}
	var err error
	z.kubelet, err = startKubelet(ctx, z.name, p.restConfig(z.name))
	return err
}

// run starts a part of the control plane inside a zone.
func (p *Parts) run(z *zone, part Part) (*task, error) {
	program, flags, env := p.config.Programs.apiserver, p.apiserverFlags, []string(nil)
	switch {
	case part == Etcd:
		program, flags, env = p.config.Programs.etcd, p.etcdFlags, p.fabric.environ(z.name)
	case p.config.Programs.Embedded():
		flags = p.frontFlags
	}
	started, err := p.launcher.start(command{
		name: fmt.Sprintf("%s of zone %s", part, z.name),
		argv: p.fabric.inside(z.name, slices.Concat(program, flags(z.name))),
		env:  env, dir: p.dir, stderr: filepath.Join(p.dir, z.name, string(part)+".log"),
	})
	if err == nil {
		z.parts[part] = started
	}
	return started, err
}

// await waits until a part that was started is ready.
func (p *Parts) await(ctx context.Context, zone string, part Part, started *task) error {
	url := p.fabric.observe(zone) + "/readyz"
	if part == Etcd {
		url = "http://" + p.fabric.site(zone).etcd + "/health"
	}
	err := p.waitFor(ctx, started, url)
	if err == nil {
		p.say("zone %s: the %s is ready", zone, part)
	}
	return err
}
