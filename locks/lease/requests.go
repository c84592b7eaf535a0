// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"fmt"
	"net/http"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/record"
)

const resource = "leases"

// The verbs of the API that a Lock needs, as RBAC calls them.
const (
	verbGet    = "get"
	verbCreate = "create"
	verbUpdate = "update"
	verbWatch  = "watch"
)

// Read gets the Lease with one linearizable request. A Lease that does not
// exist gives the zero Snapshot and no error.
func (l *Lock) Read(ctx context.Context) (election.Snapshot, error) {
	s, err := l.send(ctx, l.request(http.MethodGet).Name(l.config.Name))
	if l.absent(err) {
		return election.Snapshot{}, nil
	}
	if err != nil {
		return election.Snapshot{}, l.explain(verbGet, err)
	}
	return s, nil
}

// Write puts r on the Lease if that is still at base (UID and
// resourceVersion), or creates the Lease where base does not exist. base must
// come from a Lock on the same Lease. A record that a Lease cannot hold
// without loss is refused before anything is sent; see election.Lock for the
// other errors.
func (l *Lock) Write(ctx context.Context, base election.Version, r election.Record) (election.Snapshot, error) {
	verb := verbUpdate
	if !base.Exists() {
		verb = verbCreate
	}
	lease, err := l.lease(base, r)
	if err != nil {
		return election.Snapshot{}, l.explain(verb, err)
	}
	req := l.request(http.MethodPost)
	if base.Exists() {
		req = l.request(http.MethodPut).Name(l.config.Name)
	}
	s, err := l.send(ctx, req.Body(lease))
	if err != nil {
		return election.Snapshot{}, l.explain(verb, err)
	}
	return s, nil
}

// lease returns the object to write.
func (l *Lock) lease(base election.Version, r election.Record) (*coordinationv1.Lease, error) {
	if err := record.Check(r); err != nil {
		return nil, err
	}
	old := &coordinationv1.Lease{}
	old.Namespace, old.Name = l.config.Namespace, l.config.Name
	if base.Exists() {
		read, ok := base.Opaque.(*coordinationv1.Lease)
		if !ok || read == nil || read.Namespace != l.config.Namespace || read.Name != l.config.Name {
			return nil, fmt.Errorf("the version to replace (%T) was not read from this Lease", base.Opaque)
		}
		if read.UID == "" || read.ResourceVersion == "" {
			return nil, fmt.Errorf("the version to replace has UID %q and resourceVersion %q: without both the write would not be a compare-and-swap", read.UID, read.ResourceVersion)
		}
		old = read
	}
	return record.Write(old, r), nil
}

// request begins a request that nothing of client-go delays or repeats: a
// retry belongs to the elector, which knows how long it may take.
func (l *Lock) request(method string) *rest.Request {
	return l.config.Client.Verb(method).
		Namespace(l.config.Namespace).
		Resource(resource).
		MaxRetries(0).
		Throttle(nil).
		BackOffWithContext(&rest.NoBackoff{})
}

// send makes a request that is answered with the Lease.
func (l *Lock) send(ctx context.Context, req *rest.Request) (election.Snapshot, error) {
	lease := &coordinationv1.Lease{}
	if err := req.Do(ctx).Into(lease); err != nil {
		return election.Snapshot{}, err
	}
	return l.snapshot(lease)
}
