// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/locks"
)

// Operation is one step of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Amend returns the JSON patch that makes before into after on a Lease, whatever
// its resourceVersion, and that the server refuses unless the record is before.
// A request to hand over may have come since: it stays. The two may differ in
// RenewTime and Details.
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
