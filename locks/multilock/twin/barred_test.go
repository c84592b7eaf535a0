// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package twin

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/locks"
)

// TestATwinIsBarredIfItsLeaseIs.
func TestATwinIsBarredIfItsLeaseIs(t *testing.T) {
	g := locks.Snapshot{Version: locks.Version{Number: 5, Opaque: &coordinationv1.Lease{}}, Barred: "it is for others"}
	for _, only := range []bool{true, false} {
		if s := (&twinState{governing: g, governingOnly: only}).snapshot(5); s.Barred == "" {
			t.Errorf("governingOnly=%v: the Lease is barred, and the twin is not: %+v", only, s.Barred)
		}
	}
}
