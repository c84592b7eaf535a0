// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"testing"

	"github.com/zonelect/zonelect/internal/goroutinetest"
)

func TestEachGoroutineIsListed(t *testing.T) { goroutinetest.CheckList(t) }
