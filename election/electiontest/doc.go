// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package electiontest runs electors in tests: candidates in virtual time, whose
// locks fail as the test says, and a history of who led when.
package electiontest
