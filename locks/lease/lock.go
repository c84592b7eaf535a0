// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// have connections of its own: operator.LeaseLock makes such a client.
	Client rest.Interface
	// Namespace and Name of the Lease. Required. The Lease need not exist;
	// the namespace must.
	Namespace, Name string
	// CloseConnections, if set, closes every connection that Client uses. See
	// [Lock.CloseConnections].
	CloseConnections func()
	// Annotate, if set, gets the annotations of each Lease before it is written, or nil
	// if there are none, and returns them with its changes. It must be pure.
	Annotate func(annotations map[string]string) map[string]string
	// Labels are set on each Lease that is written. Its other labels are kept.
	Labels map[string]string
	// Owners, if set, returns the owners of a Lease that is about to be created. The garbage
	// collector deletes the Lease if none of them exists, so it must have asked the API server.
	Owners func(ctx context.Context) []metav1.OwnerReference
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

// CloseConnections closes all connections at once, with the requests and watches on
// them, so that no write of a past term is delivered later. The Lock stays usable and
// dials again. Without Config.CloseConnections it does nothing, and only the end of its
// context ends a request.
func (l *Lock) CloseConnections() {
	if l.config.CloseConnections != nil {
		l.config.CloseConnections()
	}
}

// snapshot returns the record in lease.
func (l *Lock) snapshot(lease *coordinationv1.Lease) locks.Snapshot {
	s := record.Snapshot(lease)
	l.long.See(l.config.Logger, l.Describe(), s.Record)
	return s
}
