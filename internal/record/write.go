// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"fmt"
	"math"
	"strings"
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
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, AnnotationEvacuated, string(r.Evacuated))
	}
	if r.History != "" {
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, AnnotationHistory, string(r.History))
	}
	return lease
}

// Check returns nil if a lock can hold r without loss, or an error that wraps [ErrUnwritable]
// and says what does not fit. Publishing a duration that was cut would give two leaders, so
// nothing is rounded.
func Check(r locks.Record) error {
	var errs []error
	if s := r.LeaseDuration / time.Second; r.LeaseDuration%time.Second != 0 || s < 1 || s > math.MaxInt32 {
		errs = append(errs, fmt.Errorf("%w: its lease duration %v is not from 1s to %ds in whole seconds", ErrUnwritable, r.LeaseDuration, math.MaxInt32))
	}
	if r.Transitions < 0 {
		errs = append(errs, fmt.Errorf("%w: its number of transitions %d is negative", ErrUnwritable, r.Transitions))
	}
	if len(r.Holder) > MaxText {
		errs = append(errs, fmt.Errorf("%w: the holder's identity has %d bytes, at most %d are read back", ErrUnwritable, len(r.Holder), MaxText))
	}
	if to := len(r.Details.Handover.To); to > MaxText {
		errs = append(errs, fmt.Errorf("%w: the successor's identity has %d bytes, at most %d are read back", ErrUnwritable, to, MaxText))
	}
	if len(r.History) > locks.MaxHistory {
		errs = append(errs, fmt.Errorf("%w: its history has %d bytes, at most %d are read back", ErrUnwritable, len(r.History), locks.MaxHistory))
	}
	for _, f := range fields(&r.Details) {
		if f.text != nil && len(*f.text) > MaxText {
			errs = append(errs, fmt.Errorf("%w: %s has %d bytes, at most %d are read back", ErrUnwritable, f.key, len(*f.text), MaxText))
		}
	}
	return errors.Join(errs...)
}

// Operation is one step of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Amend returns the JSON patch that changes before into after on a Lease, whatever its
// resourceVersion, and that the server refuses unless the record is before. The patch keeps a
// request to hand over that may have come since. before and after may differ in RenewTime and
// Details.
func Amend(before, after locks.Record) []Operation {
	was := Write(&coordinationv1.Lease{}, before)
	patch := []Operation{
		{"test", "/spec/holderIdentity", *was.Spec.HolderIdentity},
		{"test", "/spec/leaseDurationSeconds", *was.Spec.LeaseDurationSeconds},
		{"test", "/spec/acquireTime", was.Spec.AcquireTime},
		{"test", "/spec/renewTime", was.Spec.RenewTime},
		{"test", "/spec/leaseTransitions", *was.Spec.LeaseTransitions},
	}
	patch = append(patch, amendDetails(before.Details, after.Details)...)
	return append(patch, Operation{"replace", "/spec/renewTime", Write(nil, after).Spec.RenewTime})
}

func amendDetails(before, after locks.Details) (patch []Operation) {
	now := fields(&after)
	for i, f := range fields(&before) {
		path := "/metadata/annotations/" + strings.ReplaceAll(f.key, "/", "~1")
		was, is := f.encode(), now[i].encode()
		if was != "" && f.key != AnnotationRequest && f.key != AnnotationRefused {
			patch = append(patch, Operation{"test", path, was})
		}
		switch {
		case was == is:
		case is == "":
			patch = append(patch, Operation{Op: "remove", Path: path})
		default:
			patch = append(patch, Operation{"add", path, is})
		}
	}
	return patch
}
