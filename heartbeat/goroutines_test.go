// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"testing"

	"github.com/zonelect/zonelect/internal/doctest"
)

func TestEachGoroutineIsListed(t *testing.T) { doctest.CheckGoroutines(t) }
