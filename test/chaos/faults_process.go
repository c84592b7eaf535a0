// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"math/rand/v2"
)

// processFaults are those of the candidates' own processes.
var processFaults = []fault{
	{
		name: "leader-killed", about: "leader killed (SIGKILL)",
		lasts: aTakeover, inject: leaderKilled, promise: takeover,
	},
}

func leaderKilled(ctx context.Context, s *stage, _ *rand.Rand) (func(context.Context) error, error) {
	return nil, s.each(func(g *group) error {
		leader, err := g.leader()
		if err != nil {
			return err
		}
		return leader.kill(ctx)
	})
}
