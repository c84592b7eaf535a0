// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package shield

import (
	"context"
	"time"

	"github.com/zonelect/zonelect/internal/rawapi"
)

// PreconditionsSince is the minor version of Kubernetes 1 from which on every
// garbage collector that may serve an API server of that version compares
// resourceVersions: they do since 1.34, and a controller manager may be one
// version older than the API server.
const PreconditionsSince = 35

// settle returns M7's wait. Where the server's version cannot be known, it is
// taken for an old one.
func (s *Lock) settle(ctx context.Context) time.Duration {
	if s.config.Settle != 0 {
		return max(0, s.config.Settle)
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.Timing.AttemptTimeout)
	defer cancel()
	minor, err := rawapi.ServerMinor(ctx, s.config.Core)
	if err != nil {
		s.log().Info("the API server's version is not known: the garbage collector is taken for an old one", "settle", SettleDefault, "cause", err.Error())
	}
	if err != nil || minor < PreconditionsSince {
		return SettleDefault
	}
	return 0
}
