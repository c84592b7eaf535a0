// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
)

// moveControllers makes sure that the kube-controller-manager runs as a client
// of a living zone's apiserver. It starts it at first, and starts it anew
// elsewhere when its zone is gone. The caller holds mu.
func (t *Testbed) moveControllers(ctx context.Context) error {
	if t.config.WithoutControllers {
		return nil
	}
	zone, alive := t.livingZone(t.governed)
	if t.controllers != nil && (zone == t.governed || !alive) {
		return nil
	}
	if t.controllers != nil {
		if err := t.controllers.kill(ctx); err != nil {
			return err
		}
	}
	if !alive {
		return fmt.Errorf("start the controllers: no zone has a living apiserver")
	}
	kubeconfig := filepath.Join(t.dir, "kcm.kubeconfig")
	if err := t.writeKubeconfig(kubeconfig, cmp.Or(t.config.ControllersServer, t.network.observe(zone))); err != nil {
		return err
	}
	started, err := t.launcher.start(command{
		name: "kube-controller-manager", argv: append([]string{t.program, "kcm"}, t.controllerFlags(kubeconfig)...),
		dir: t.dir, stderr: filepath.Join(t.dir, "kcm.log"),
	})
	if err != nil {
		return err
	}
	t.controllers, t.governed = started, zone
	t.say("the controllers run on the apiserver of zone %s", zone)
	return nil
}

// livingZone returns a zone whose apiserver runs and can be reached by at
// least one other zone, if there is another; the preferred one if it is so.
// The caller holds mu.
func (t *Testbed) livingZone(preferred string) (string, bool) {
	if z, ok := t.zones[preferred]; ok && t.well(z) && !t.cutOff(preferred) {
		return preferred, true
	}
	for _, name := range t.config.Zones {
		if t.well(t.zones[name]) && !t.cutOff(name) {
			return name, true
		}
	}
	return "", false
}

// cutOff reports whether a zone is partitioned from all others, were it one way
// only: then no connection works. The caller holds mu.
func (t *Testbed) cutOff(zone string) bool {
	for _, other := range t.config.Zones {
		if other != zone && !t.state.severed[pair{zone, other}] && !t.state.severed[pair{other, zone}] {
			return false
		}
	}
	return len(t.config.Zones) > 1
}
