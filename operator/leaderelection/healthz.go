// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderelection

import (
	"net/http"
	"sync/atomic"
	"time"
)

// HealthzAdaptor is a check for a liveness probe, in the form of k8s.io/apiserver/pkg/server/healthz.
// Make one with NewLeaderHealthzAdaptor. Safe for concurrent use.
type HealthzAdaptor struct {
	timeout time.Duration
	elector atomic.Pointer[LeaderElector]
}

// NewLeaderHealthzAdaptor returns a HealthzAdaptor that passes timeout to LeaderElector.Check.
func NewLeaderHealthzAdaptor(timeout time.Duration) *HealthzAdaptor {
	return &HealthzAdaptor{timeout: timeout}
}

// SetLeaderElection says which LeaderElector it checks. Before that, the check passes.
func (l *HealthzAdaptor) SetLeaderElection(le *LeaderElector) { l.elector.Store(le) }

// Name is what the check is called.
func (l *HealthzAdaptor) Name() string { return "leaderElection" }

// Check returns the error of LeaderElector.Check.
func (l *HealthzAdaptor) Check(*http.Request) error {
	if le := l.elector.Load(); le != nil {
		return le.Check(l.timeout)
	}
	return nil
}
