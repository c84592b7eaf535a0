// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// Read gets the Lease with one linearizable request. If there is no Lease, it returns
// the zero Snapshot and no error.
func (l *Lock) Read(ctx context.Context) (locks.Snapshot, error) {
	lease, err := l.object.Get(ctx)
	if l.object.Name().Absent(err) {
		return locks.Snapshot{}, nil
	}
	if err != nil {
		return locks.Snapshot{}, err
	}
	return l.snapshot(lease), nil
}

// Write puts r on the Lease if the Lease is still at base (UID and resourceVersion), or
// creates the Lease if base does not exist. base must come from a Lock on the same Lease.
// If a Lease cannot hold the record without loss, Write refuses it and sends nothing. See
// [locks.Lock] for the other errors.
func (l *Lock) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	verb, send := apierror.Update, l.object.Update
	if !base.Exists() {
		verb, send = apierror.Create, l.object.Create
	}
	lease, err := written(base, r)
	if err != nil {
		return locks.Snapshot{}, l.object.Name().Explain(verb, err)
	}
	if group := l.config.Capabilities.Group; group != "" {
		lease.Annotations[record.AnnotationShared] = group
	}
	if l.config.Annotate != nil {
		lease.Annotations = l.config.Annotate(lease.Annotations)
	}
	record.SetLabels(lease, l.config.Labels)
	lease, err = send(ctx, lease)
	if err != nil {
		return locks.Snapshot{}, err
	}
	s := l.snapshot(lease)
	return s, l.object.Name().Explain(verb, record.Shows(s, base, r))
}

// written returns the object to write.
func written(base locks.Version, r locks.Record) (*coordinationv1.Lease, error) {
	if err := record.Check(r); err != nil {
		return nil, err
	}
	old, _ := base.Opaque.(*coordinationv1.Lease)
	if base.Exists() && old == nil {
		return nil, fmt.Errorf("the version to replace (%T) was not read from this Lease", base.Opaque)
	}
	return record.Write(old, r), nil
}
