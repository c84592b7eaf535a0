// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package locks

import "errors"

// Errors that a [Lock] returns, wrapped in an error that says what was tried and, if
// possible, what to do. Use errors.Is.
//
// ErrConflict and ErrVersionExpired are part of the contract: an elector handles each of
// them differently. It treats ErrForbidden and ErrNoAPI like any other error, but tells
// people and telemetry which one occurred.
var (
	// ErrConflict, from Write: the record is no longer the one that the write
	// replaces, and nothing was written.
	ErrConflict = errors.New("the record was changed meanwhile")
	// ErrVersionExpired, from Watch: it can no longer start from that version; read
	// again.
	ErrVersionExpired = errors.New("the version is too old to watch from")
	// ErrForbidden: a permission is missing.
	ErrForbidden = errors.New("permission missing")
	// ErrNoAPI: the server does not serve this kind of object.
	ErrNoAPI = errors.New("API not served")
)
