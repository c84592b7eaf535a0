// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"testing"

	"github.com/zonelect/zonelect/internal/goroutinetest"
)

func TestEachGoroutineIsListed(t *testing.T) {
	goroutinetest.CheckList(t, "leaseonly", "shield", "twin", "internal/candidate")
}
