// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"
)

// zone is what runs in a zone. Its users hold the testbed's lock.
type zone struct {
	name     string
	dark     bool
	ready    bool // the apiserver has been ready since the power came back
	expired  bool // the apiserver's endpoint lease has run out
	epoch    int  // counts changes, so that an old timer knows that it is out of date
	parts    map[Part]*task
	kubelet  *kubelet
	programs []*task
}

// kill stops the zone's kubelet and kills all its processes, at once. It
// returns an error if ctx ends before they are gone.
func (z *zone) kill(ctx context.Context) error {
	if z.kubelet != nil {
		z.kubelet.stop()
	}
	var all errgroup.Group
	for _, task := range slices.AppendSeq(z.programs, maps.Values(z.parts)) {
		all.Go(func() error { return task.kill(ctx) })
	}
	z.kubelet, z.parts, z.programs, z.ready = nil, map[Part]*task{}, nil, false
	return all.Wait()
}
