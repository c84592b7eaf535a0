// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"fmt"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// Config says which Lease a Lock uses and how to reach it.
type Config struct {
	// Client talks to the API group coordination.k8s.io/v1, such as
	// clientset.CoordinationV1().RESTClient(). Required. An election should
	// have connections of its own, as those of package operator have.
	Client rest.Interface
	// Namespace and Name of the Lease. Required. The Lease need not exist;
	// the namespace must.
	Namespace, Name string
	// Capabilities are those of the lock. Its CloseConnections closes every connection that
	// Client uses.
	Capabilities locks.Capabilities
	// Annotate, if set, gets the annotations of each Lease before it is written, or nil
	// if there are none, and returns them with its changes. Observe, if set, gets the snapshot
	// of each Lease that was seen, and returns it with its changes. Both return at once.
	Annotate func(annotations map[string]string) map[string]string
	Observe  func(locks.Snapshot) locks.Snapshot
	// Labels are set on each Lease that is written. Its other labels are kept.
	Labels map[string]string
	// Logger gets warnings about records that are odd but valid. The zero Logger drops
	// them.
	Logger logr.Logger
}

// Lock is a [locks.Lock] on one Lease. It keeps no copy of what it read. All methods are safe for
// concurrent use.
type Lock struct {
	config Config
	object rawapi.Object[coordinationv1.Lease, *coordinationv1.Lease]
	long   record.LongWarning
}

var _ locks.Lock = (*Lock)(nil)

// New returns the Lock that c describes, or an error that lists everything that is
// wrong with c. It does no I/O.
func New(c Config) (*Lock, error) {
	name := apierror.Object{Resource: apierror.Leases, Namespace: c.Namespace, Name: c.Name}
	if err := rawapi.Check(c.Client, name); err != nil {
		return nil, fmt.Errorf("lease lock %q in namespace %q: %w", c.Name, c.Namespace, err)
	}
	return &Lock{config: c, object: rawapi.New[coordinationv1.Lease](c.Client, name)}, nil
}

// Describe returns the Lease's name. It does no I/O.
func (l *Lock) Describe() locks.Description {
	return locks.Description{Kind: "Lease", Namespace: l.config.Namespace, Name: l.config.Name}
}

// Capabilities returns those of the Config. It does no I/O.
func (l *Lock) Capabilities() locks.Capabilities { return l.config.Capabilities }

// snapshot returns the record in lease. It may be barred by the phase of a migration.
func (l *Lock) snapshot(lease *coordinationv1.Lease) locks.Snapshot {
	s := record.Snapshot(lease)
	l.long.See(l.config.Logger, l.Describe(), s.Record)
	s.Barred = record.StageOf(s.Version).Bars(record.LegacyOf(s.Version))
	if l.config.Observe != nil {
		s = l.config.Observe(s)
	}
	return s
}
