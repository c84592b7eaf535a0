// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lockstest has the tests that every [locks.Lock] must pass, and a lock that
// fails on a test's demand.
package lockstest
