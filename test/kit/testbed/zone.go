// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
)

// zone is what runs in a zone. Its owner, the Testbed, holds its lock for
// every use.
type zone struct {
	name      string
	dark      bool
	ready     bool // the apiserver has been ready since the power came
	expired   bool // the apiserver's endpoint lease has run out
	epoch     int  // counts changes, so that an old timer knows that it is old
	boots     int
	etcd      *task
	apiserver *task
	kubelet   *kubelet
	programs  []*task
	disk      *throttle // what slows etcd's disk, if anything
}

// kill stops the zone's kubelet and kills all its processes, at once. With ctx
// ended before they are gone it returns an error.
func (z *zone) kill(ctx context.Context) error {
	if z.kubelet != nil {
		z.kubelet.stop()
	}
	tasks := append([]*task{z.etcd, z.apiserver}, z.programs...)
	failures := make([]error, len(tasks))
	var all sync.WaitGroup
	for i, task := range tasks {
		if task != nil {
			all.Go(func() { failures[i] = task.kill(ctx) })
		}
	}
	all.Wait()
	if z.disk != nil {
		failures = append(failures, z.disk.end(z.etcd))
	}
	z.kubelet, z.etcd, z.apiserver, z.programs, z.disk, z.ready = nil, nil, nil, nil, nil, false
	return errors.Join(failures...)
}

// poweredZone finds a zone that has power. The caller holds mu.
func (t *Testbed) poweredZone(name string) (*zone, error) {
	z, err := t.zone(name)
	if err == nil && z.dark {
		return nil, fmt.Errorf("zone %s has no power: restore it first", name)
	}
	return z, err
}

// poweredZones finds zones that have power, those named or all. The caller
// holds mu.
func (t *Testbed) poweredZones(names []string) ([]*zone, error) {
	var found []*zone
	for _, name := range names {
		z, err := t.poweredZone(name)
		if err != nil {
			return nil, err
		}
		found = append(found, z)
	}
	if len(names) > 0 {
		return found, nil
	}
	for _, name := range t.config.Zones {
		if z, err := t.poweredZone(name); err == nil {
			found = append(found, z)
		}
	}
	return found, nil
}

// zone finds a zone. The caller holds mu.
func (t *Testbed) zone(name string) (*zone, error) {
	z, ok := t.zones[name]
	switch {
	case t.closed:
		return nil, errors.New("the testbed is closed")
	case !ok:
		return nil, fmt.Errorf("there is no zone %q: the zones are %s", name, strings.Join(t.config.Zones, ", "))
	}
	return z, nil
}

// startZones starts all zones at the same time, for etcd's members need one
// another to become ready.
func (t *Testbed) startZones(ctx context.Context) error {
	var all []*zone
	for _, name := range t.config.Zones {
		all = append(all, t.zones[name])
	}
	return t.bootAll(ctx, all)
}

// bootAll boots zones at the same time.
func (t *Testbed) bootAll(ctx context.Context, zones []*zone) error {
	failures := make([]error, len(zones))
	var all sync.WaitGroup
	for i, z := range zones {
		all.Go(func() { failures[i] = t.boot(ctx, z) })
	}
	all.Wait()
	return errors.Join(failures...)
}

// boot starts a zone's control plane and its kubelet, and waits until they are
// ready. It touches nothing but this zone.
func (t *Testbed) boot(ctx context.Context, z *zone) error {
	z.boots++
	var err error
	if z.etcd, err = t.startEtcd(z); err != nil {
		return err
	}
	if err := t.waitForEtcd(ctx, z.name, z.etcd); err != nil {
		return err
	}
	if z.apiserver, err = t.startAPIServer(z); err != nil {
		return err
	}
	if err := t.waitForAPIServer(ctx, z.name, z.apiserver); err != nil {
		return err
	}
	z.ready, z.expired = true, false
	if t.config.WithoutNodes {
		return nil
	}
	z.kubelet, err = startKubelet(ctx, z.name, z.boots, t.restConfig(z.name))
	return err
}

func (t *Testbed) startEtcd(z *zone) (*task, error) {
	return t.startPart(z, "etcd", t.etcdFlags(z.name), t.network.environ(z.name))
}

func (t *Testbed) startAPIServer(z *zone) (*task, error) {
	return t.startPart(z, "apiserver", t.apiserverFlags(z.name), nil)
}

func (t *Testbed) waitForEtcd(ctx context.Context, zone string, part *task) error {
	err := t.waitFor(ctx, part, "http://"+t.network.site(zone).etcd+"/health")
	if err == nil {
		t.say("zone %s: etcd is ready", zone)
	}
	return err
}

func (t *Testbed) waitForAPIServer(ctx context.Context, zone string, part *task) error {
	err := t.waitFor(ctx, part, t.network.observe(zone)+"/readyz")
	if err == nil {
		t.say("zone %s: the apiserver is ready", zone)
	}
	return err
}

// startPart starts a part of the control plane inside a zone.
func (t *Testbed) startPart(z *zone, role string, flags, env []string) (*task, error) {
	return t.launcher.start(command{
		name: role + " of zone " + z.name,
		argv: t.network.inside(z.name, append([]string{t.program, role}, flags...)),
		env:  env, dir: t.dir, stderr: filepath.Join(t.dir, z.name, role+".log"),
	})
}
