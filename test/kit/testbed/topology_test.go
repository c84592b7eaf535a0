// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"testing"
)

func TestAllMembersOutlivesItsOwn(t *testing.T) {
	onEachNetwork(t, func(t *testing.T, kind NetworkKind) {
		bed := startBed(t, Config{
			Network: kind, Topology: AllMembers, WithoutControllers: true, WithoutNodes: true,
		})
		if err := bed.zones["za"].etcd.kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		c := client(t, bed.Cluster.RESTConfig("za"))
		eventually(t, "write in zone za without its etcd member", func(ctx context.Context) error {
			return write(ctx, c, "outlived")
		})
	})
}
