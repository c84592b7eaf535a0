// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !ordered

package sim_test

// ordered says that a seed always gives the same run: see the command of that
// name. Without it, things that happen at the same moment happen in any order.
const ordered = false

func follow(uint64, uint64) (end func()) { return func() {} }
