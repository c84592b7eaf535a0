// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"errors"
	"fmt"
)

// SlowDisk limits how often a zone's etcd member may write to its disk, so that
// it waits for its disk before it acknowledges anything; 0 writes a second is no
// limit. The limit ends with the member. It needs Config.SyncToDisk, root, the
// cgroup controller blkio (cgroup v1), and a state directory on a disk.
func (p *Parts) SlowDisk(zone string, writesPerSecond int) error {
	if !p.config.SyncToDisk {
		return errors.New("slow a disk: the members do not wait for it, it needs Config.SyncToDisk")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	z, err := p.poweredZone(zone)
	if err == nil {
		err = p.slowDisk(z, writesPerSecond)
	}
	if err != nil {
		return fmt.Errorf("slow the disk of zone %s: %w", zone, err)
	}
	p.say("zone %s: etcd may write %d times a second", zone, writesPerSecond)
	return nil
}

// slowDisk sets the limit for a zone's member. The caller holds mu.
func (p *Parts) slowDisk(z *zone, writesPerSecond int) error {
	if z.disk != nil {
		last := z.disk
		z.disk = nil
		if err := last.end(z.etcd); err != nil {
			return err
		}
	}
	if writesPerSecond == 0 {
		return nil
	}
	var err error
	z.disk, err = newThrottle(p.dir, z.name, writesPerSecond, z.etcd)
	return err
}
