// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/locks"
)

// ErrUnwritable is wrapped by every error of [Check].
var ErrUnwritable = errors.New("a lock cannot hold this record")

// Write returns a copy of base whose record is r. The spec fields of the record and our
// annotations are set, or deleted where r has none; everything else in base is kept. base
// itself is not changed. A nil base counts as an empty object. Call [Check] first: values
// that do not fit a Lease are cut.
func Write(base *coordinationv1.Lease, r locks.Record) *coordinationv1.Lease {
	lease := base.DeepCopy()
	if lease == nil {
		lease = &coordinationv1.Lease{}
	}
	seconds := int32(r.LeaseDuration / time.Second)
	lease.Spec.HolderIdentity = &r.Holder
	lease.Spec.LeaseDurationSeconds = &seconds
	lease.Spec.AcquireTime = &metav1.MicroTime{Time: r.AcquireTime}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: r.RenewTime}
	lease.Spec.LeaseTransitions = &r.Transitions
	lease.Annotations = WriteDetails(lease.Annotations, r.Details)
	if r.Evacuated != "" {
		lease.Annotations[AnnotationEvacuated] = r.Evacuated
	}
	set(lease.Annotations, AnnotationPrevious, formatPrevious(r.Previous))
	return lease
}

// Check returns nil if a lock can hold r without loss, or an error that wraps [ErrUnwritable]
// and says what does not fit. Publishing a duration that was cut would give two leaders, so
// nothing is rounded.
func Check(r locks.Record) error {
	var errs []error
	if s := r.LeaseDuration / time.Second; r.LeaseDuration%time.Second != 0 || s < 1 || s > math.MaxInt32 {
		errs = append(errs, fmt.Errorf("%w: its lease duration %v is not from 1s to %ds in whole seconds",
			ErrUnwritable, r.LeaseDuration, math.MaxInt32))
	}
	if r.Transitions < 0 {
		errs = append(errs, fmt.Errorf("%w: its number of transitions %d is negative", ErrUnwritable, r.Transitions))
	}
	texts := written(r.Details)
	texts["the holder's identity"] = r.Holder
	texts[AnnotationHandover] = r.Details.Handover.To // without the rest of the JSON
	for _, what := range slices.Sorted(maps.Keys(texts)) {
		if size := len(texts[what]); size > MaxText {
			errs = append(errs, fmt.Errorf("%w: %s has %d bytes, at most %d are read back", ErrUnwritable, what, size, MaxText))
		}
	}
	return errors.Join(errs...)
}
