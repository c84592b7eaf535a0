// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package locks

import "errors"

// Errors that a [Lock] returns, wrapped in an error that says what was tried and, if
// possible, what to do. Use errors.Is.
var (
	// ErrConflict: the record is no longer at the version that the write replaces.
	ErrConflict = errors.New("the record was changed meanwhile")
	// ErrVersionExpired: a watch cannot start from that version any more; read again.
	ErrVersionExpired = errors.New("the version is too old to watch from")
	// ErrForbidden: a permission is missing.
	ErrForbidden = errors.New("permission missing")
	// ErrNoAPI: the server does not serve this kind of object.
	ErrNoAPI = errors.New("API not served")
)
