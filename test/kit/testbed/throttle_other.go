// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package testbed

import "errors"

// throttle does not exist here.
type throttle struct{}

func newThrottle(string, string, int, *task) (*throttle, error) {
	return nil, errors.New("the writes of a program can be bounded on Linux only")
}

func (*throttle) end(*task) error { return nil }
