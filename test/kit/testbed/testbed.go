// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Testbed is a running control plane in zones. Its methods are safe for
// concurrent use; those that change something wait for one another. After
// Close they fail.
type Testbed struct {
	config   Config
	dir      string
	program  string // the control plane's
	network  network
	pki      *pki
	launcher *launcher

	ctx        context.Context // ends at Close
	cancel     context.CancelFunc
	background sync.WaitGroup // goroutines that end with ctx or with a program

	mu          sync.Mutex
	closed      bool
	zones       map[string]*zone
	state       state
	steer       map[string][]string // what SteerVIP asked for
	frozenVIP   map[string][]string // what cut-off zones have heard last
	controllers *task
	governed    string             // the zone whose apiserver the controllers use
	rejected    map[string]bool    // users whose requests apiservers reject
	vacateAll   context.CancelFunc // ends the requests of the occupant

	closing  sync.Once
	closeErr error
	progress sync.Mutex // for Config.Progress
}

// Start builds the control plane's program if need be (see Build), and starts
// it in all zones. It returns when every apiserver is ready and every node is.
// If something fails, or ctx ends first, nothing is left running. ctx is not
// used any more once Start has returned.
func Start(ctx context.Context, config Config) (*Testbed, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("start a testbed: %w", err)
	}
	program, err := Build(ctx, config.Kubernetes, config.Progress)
	if err != nil {
		return nil, fmt.Errorf("start a testbed: build the control plane: %w", err)
	}
	t := newTestbed(config, program)
	if err := t.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start a testbed: %w", err), t.Close())
	}
	return t, nil
}

// newTestbed returns a testbed in which nothing runs.
func newTestbed(config Config, program string) *Testbed {
	ctx, cancel := context.WithCancel(context.Background())
	t := &Testbed{
		config: config, program: program, ctx: ctx, cancel: cancel, launcher: newLauncher(),
		zones: map[string]*zone{}, steer: map[string][]string{}, frozenVIP: map[string][]string{}, rejected: map[string]bool{},
		state: newState(),
	}
	for _, name := range config.Zones {
		t.zones[name] = &zone{name: name}
	}
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
	if err := t.startZones(ctx); err != nil {
		return err
	}
	if err := t.moveControllers(ctx); err != nil {
		return err
	}
	t.say("%d zones are ready after %s", len(t.config.Zones), time.Since(begun).Round(time.Millisecond))
	return nil
}

// makeDir makes the directory for state and logs.
func (t *Testbed) makeDir() error {
	t.dir = t.config.Dir
	if t.dir == "" {
		dir, err := os.MkdirTemp("", "zonelect-testbed-")
		if err != nil {
			return fmt.Errorf("make a state directory: %w", err)
		}
		t.dir = dir
	}
	dir, err := filepath.Abs(t.dir)
	if err != nil {
		return fmt.Errorf("find the state directory: %w", err)
	}
	t.dir = dir
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
		t.network, err = newNamespaces(ctx, t.config.Zones)
	} else {
		t.network, err = newLinks(t.config.Zones)
	}
	if err != nil {
		t.network = nil
		return fmt.Errorf("make the network: %w", err)
	}
	if t.pki, err = newPKI(t.dir, t.network.hosts()); err != nil {
		return err
	}
	for _, zone := range t.config.Zones {
		if err := t.writeKubeconfig(t.Kubeconfig(zone), t.network.vip(zone)); err != nil {
			return err
		}
	}
	return t.settle(ctx)
}

// Dir is the directory of state and logs: one directory per zone, with
// etcd.log, apiserver.log and NAME.log for each program, and kcm.log.
func (t *Testbed) Dir() string { return t.dir }

// Network is the network that is used, never Auto.
func (t *Testbed) Network() Network { return t.config.Network }

// Zones returns the zones' names, in the order of Config.
func (t *Testbed) Zones() []string { return append([]string(nil), t.config.Zones...) }

// Close kills everything and removes every trace: processes, network, and the
// state directory if it is a temporary one. Calling it again returns the first
// result. It waits for a call that is changing the testbed.
func (t *Testbed) Close() error {
	t.closing.Do(func() {
		t.mu.Lock()
		t.closed = true
		t.mu.Unlock()
		t.closeErr = t.tearDown()
	})
	return t.closeErr
}

// closeWait bounds how long killed programs may take to be gone.
const closeWait = 30 * time.Second

// tearDown takes everything down, in the reverse order of start. Nothing
// changes the testbed any more: every method that could sees that it is closed.
func (t *Testbed) tearDown() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	t.cancel()
	var failed error
	for _, zone := range t.config.Zones {
		failed = errors.Join(failed, t.zones[zone].kill(ctx))
	}
	if t.controllers != nil {
		failed = errors.Join(failed, t.controllers.kill(ctx))
	}
	if failed == nil { // else waiting could take for ever
		t.launcher.close()
		t.background.Wait()
	}
	if t.network != nil {
		failed = errors.Join(failed, t.network.close())
	}
	if t.config.Dir == "" && t.dir != "" {
		failed = errors.Join(failed, os.RemoveAll(t.dir))
	}
	return failed
}

// say reports progress.
func (t *Testbed) say(format string, args ...any) {
	t.progress.Lock()
	defer t.progress.Unlock()
	// Progress is a courtesy: a writer that fails stops nothing.
	_, _ = fmt.Fprintf(t.config.Progress, "testbed: "+format+"\n", args...)
}
