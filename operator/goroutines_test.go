// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"testing"

	"github.com/zonelect/zonelect/internal/doctest"
)

func TestEachGoroutineIsListed(t *testing.T) {
	doctest.CheckGoroutines(t, "../internal/transport", "internal/events")
}
