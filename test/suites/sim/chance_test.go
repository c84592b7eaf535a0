// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !ordered

package sim_test

// ordered says that a seed gives the same run, each time: see the command of that
// name. Else what happens at the same moment happens in any order.
const ordered = false

func follow(uint64, uint64) (end func()) { return func() {} }
