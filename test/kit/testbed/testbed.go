// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Testbed is a running control plane in zones. Its methods, and those of its
// fields, are safe for concurrent use; those that change something wait for one
// another. After Close they fail.
type Testbed struct {
	Network *Network // the network between the zones
	Parts   *Parts   // the parts of the control plane
	Cluster *Cluster // the Kubernetes API

	*routes
	close func() error // once
}

// Start builds the control plane's program if need be (see Config.Programs), and starts
// it in all zones. It returns when every apiserver is ready and every node is.
// If something fails, or ctx ends first, nothing is left running. ctx is not
// used once Start has returned.
func Start(ctx context.Context, config Config) (*Testbed, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("start a testbed: %w", err)
	}
	if config.Programs.apiserver == nil {
		if config.Programs, err = Built(ctx, config.Kubernetes, config.Progress); err != nil {
			return nil, fmt.Errorf("start a testbed: build the control plane: %w", err)
		}
	}
	t := newTestbed(config)
	if err := t.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start a testbed: %w", err), t.Close())
	}
	return t, nil
}

// newTestbed returns a testbed in which nothing runs.
func newTestbed(config Config) *Testbed {
	ctx, cancel := context.WithCancel(context.Background())
	all := &shared{
		config: config, ctx: ctx, cancel: cancel, launcher: newLauncher(),
		zones: map[string]*zone{}, state: newState(),
	}
	for _, name := range config.Zones {
		all.zones[name] = &zone{name: name, parts: map[Part]*task{}}
	}
	r := &routes{
		shared: all, controllers: &controllers{shared: all},
		steer: map[string][]string{}, frozenVIP: map[string][]string{},
	}
	t := &Testbed{Network: &Network{r}, Parts: &Parts{r}, Cluster: &Cluster{all}, routes: r}
	t.close = sync.OnceValue(t.tearDown)
	return t
}

// start brings everything up, from the network to the nodes.
func (t *Testbed) start(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	begun := time.Now()
	if err := t.makeDir(); err != nil {
		return err
	}
	if err := t.makeNetwork(ctx); err != nil {
		return err
	}
	t.say("the network (%s) is up", t.config.Network)
	if t.config.Programs.Embedded() {
		var err error
		if t.store, err = newStore(t.shared); err != nil {
			return err
		}
	}
	// All at the same time, because etcd's members need one another to become ready.
	if err := t.Parts.bootAll(ctx, slices.Collect(maps.Values(t.zones))); err != nil {
		return err
	}
	if err := t.controllers.move(ctx); err != nil {
		return err
	}
	t.say("%d zones are ready after %s", len(t.config.Zones), time.Since(begun).Round(time.Millisecond))
	return nil
}

// makeDir makes the directory for state and logs.
func (t *Testbed) makeDir() error {
	t.dir = t.config.Dir
	if t.dir == "" {
		var err error
		if t.dir, err = os.MkdirTemp("", "zonelect-testbed-"); err != nil {
			return fmt.Errorf("make a state directory: %w", err)
		}
	}
	for _, zone := range t.config.Zones {
		if err := os.MkdirAll(filepath.Join(t.dir, zone), 0o700); err != nil {
			return fmt.Errorf("make the directory of zone %s: %w", zone, err)
		}
	}
	return nil
}

// makeNetwork makes the network and all files that depend on its addresses.
func (t *Testbed) makeNetwork(ctx context.Context) error {
	var err error
	if t.config.Network == Namespaces {
		t.fabric, err = newNamespaces(ctx, t.config.Zones)
	} else {
		t.fabric, err = newLinks(t.config.Zones)
	}
	if err != nil {
		t.fabric = nil
		return fmt.Errorf("make the network: %w", err)
	}
	if t.pki, err = newPKI(t.dir, t.fabric.hosts()); err != nil {
		return err
	}
	for _, zone := range t.config.Zones {
		if err := t.writeKubeconfig(t.Cluster.Kubeconfig(zone), t.fabric.vip(zone)); err != nil {
			return err
		}
	}
	return t.settle(ctx)
}

// Dir is the directory of state and logs: one directory per zone, with
// etcd.log, apiserver.log and NAME.log for each program, and kcm.log.
func (t *Testbed) Dir() string { return t.dir }

// Zones returns the zones' names, in the order of Config.
func (t *Testbed) Zones() []string { return slices.Clone(t.config.Zones) }

// Close kills everything and removes every trace: processes, network, and the
// state directory if it is a temporary one. Calling it again returns the first
// result. It waits for a call that is changing the testbed.
func (t *Testbed) Close() error { return t.close() }

// closeWait bounds how long killed programs may take to be gone.
const closeWait = 30 * time.Second

// tearDown takes everything down, in the reverse order of start. Nothing changes
// the testbed meanwhile: every method that could notices that it is closed.
func (t *Testbed) tearDown() error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	t.cancel()
	var failed error
	for _, zone := range t.config.Zones {
		failed = errors.Join(failed, t.zones[zone].kill(ctx))
	}
	if t.controllers.task != nil {
		failed = errors.Join(failed, t.controllers.task.kill(ctx))
	}
	if t.store != nil {
		failed = errors.Join(failed, t.store.close())
	}
	if failed == nil { // else waiting could take forever
		t.launcher.close()
		t.background.Wait()
	}
	if t.fabric != nil {
		failed = errors.Join(failed, t.fabric.close())
	}
	if t.config.Dir == "" && t.dir != "" {
		failed = errors.Join(failed, os.RemoveAll(t.dir))
	}
	return failed
}
