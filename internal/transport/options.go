// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"cmp"
	"time"

	"github.com/zonelect/zonelect/election/timing"
)

// Options tune a Transport. The zero value is good for default timing.
type Options struct {
	// AttemptTimeout is how long a request waits until another one overtakes it. An unused
	// connection is kept for as long, and no dial waits longer for a kernel's answer. Only
	// its own context bounds the request itself. Zero means timing.DefaultRenewInterval.
	AttemptTimeout time.Duration
	// Patience is how long a handshake may take. Zero means
	// timing.DefaultRenewDeadline. It is at least AttemptTimeout.
	Patience time.Duration
	// DialInterval is the time after which another dial joins one that has not
	// answered, while dials are fast, and a read goes also on a connection that is kept. Zero means 200 ms.
	// It is at most a quarter of AttemptTimeout.
	DialInterval time.Duration
}

// withDefaults returns o with its zero fields filled in, and the others within
// their limits.
func (o Options) withDefaults() Options {
	o.AttemptTimeout = cmp.Or(o.AttemptTimeout, timing.DefaultRenewInterval)
	o.Patience = max(cmp.Or(o.Patience, timing.DefaultRenewDeadline), o.AttemptTimeout)
	o.DialInterval = min(cmp.Or(o.DialInterval, 200*time.Millisecond), o.AttemptTimeout/4)
	return o
}
