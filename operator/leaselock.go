// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks/lease"
)

// LockOptions say more about a lock and how to reach it. The zero value is ready to
// use.
type LockOptions struct {
	// Servers are URLs of the API server, nearest first, used instead of the
	// config's Host. All have the same scheme and path, lead to the same
	// cluster, and accept the same credentials. They cannot be used through a
	// proxy, unless there is one only.
	Servers []string
	// Labels are set on the Lease. Others on it are kept.
	Labels map[string]string
	// Version of the program, for people. The candidate's presence object carries it, if
	// the lock has one.
	Version string
	// Logger gets what people should know. The zero value drops it; in [Options] the zero
	// value means the logger in the context, or else that of slog.Default, which writes
	// to stderr unless the program says otherwise. To drop what is logged there, use
	// logr.FromSlogHandler(slog.DiscardHandler).
	Logger logr.Logger
}

// LeaseLock returns a lock on the Lease namespace/name, on connections of its
// own that serve this lock alone: no rate limit, no retries, and dead
// connections are left within timing.AttemptTimeout. cfg says where the API
// server is and how to authenticate; it is not changed. Its Timeout, QPS,
// Burst and content types have no meaning here. timing is that of the election
// that will use the lock; zero fields have their defaults.
//
// It does no I/O but reading the files that cfg names.
func LeaseLock(cfg *rest.Config, timing election.Timing, namespace, name string, o LockOptions) (*lease.Lock, error) {
	clients, err := newAPIClients(cfg, timing, o)
	if err != nil {
		return nil, fmt.Errorf("making the lock on lease %s/%s: %w", namespace, name, err)
	}
	lock, err := lease.New(clients.lease(namespace, name))
	if err != nil {
		return nil, fmt.Errorf("making the lock: %w", err)
	}
	return lock, nil
}
