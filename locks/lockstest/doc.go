// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lockstest has the tests that every [locks.Lock] must pass, and a lock that
// fails as a test says.
package lockstest
