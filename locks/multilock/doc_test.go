// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"testing"

	"github.com/zonelect/zonelect/internal/doctest"
)

func TestEachGoroutineIsListed(t *testing.T) {
	doctest.CheckGoroutines(t, "shield", "twin", "internal/candidate", "../../internal/presence", "../../internal/phase")
}

func TestEachPlaceToLookExists(t *testing.T) { doctest.CheckPlaces(t) }
