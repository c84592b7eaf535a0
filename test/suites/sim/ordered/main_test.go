// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestTheEditsFitThisGo(t *testing.T) {
	if _, err := overlay(t.TempDir()); err != nil {
		t.Error(err)
	}
}
