// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// controllers are the kube-controller-manager, which runs outside of the zones.
type controllers struct {
	*shared
	task *task
	home string // the zone whose apiserver it uses
}

// move makes sure that the kube-controller-manager runs as a client of the
// apiserver of a zone that is up. It starts it the first time, and restarts it
// elsewhere when its zone is gone. The caller holds mu.
func (c *controllers) move(ctx context.Context) error {
	if c.config.WithoutControllers {
		return nil
	}
	zone, alive := c.livingZone(c.home)
	if c.task != nil && (zone == c.home || !alive) {
		return nil
	}
	if c.task != nil {
		if err := c.task.kill(ctx); err != nil {
			return err
		}
	}
	if !alive {
		return fmt.Errorf("start the controllers: no zone has a living apiserver")
	}
	kubeconfig := filepath.Join(c.dir, "kcm.kubeconfig")
	if err := c.writeKubeconfig(kubeconfig, c.fabric.observe(zone)); err != nil {
		return err
	}
	started, err := c.launcher.start(command{
		name: "kube-controller-manager", argv: append(slices.Clone(c.config.Programs.controllers), c.flags(kubeconfig)...),
		dir: c.dir, stderr: filepath.Join(c.dir, "kcm.log"),
	})
	if err != nil {
		return err
	}
	c.task, c.home = started, zone
	c.say("the controllers run on the apiserver of zone %s", zone)
	return nil
}

// controllerNames are the controllers that matter to elections: those that collect
// a lock whose owner is gone, find a node dead, and remove its pods.
var controllerNames = []string{
	"garbage-collector-controller", "node-lifecycle-controller", "taint-eviction-controller",
	"pod-garbage-collector-controller", "namespace-controller", "deployment-controller", "replicaset-controller",
}

// flags are the flags of the kube-controller-manager.
func (c *controllers) flags(kubeconfig string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--leader-elect=false",
		"--controllers=" + strings.Join(controllerNames, ","),
		"--secure-port=0",
		"--profiling=false",
	}
}
