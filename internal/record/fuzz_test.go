// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// FuzzRead reads any JSON that decodes as a Lease. What was read, if a Lease
// can hold it, must read the same after it was written.
func FuzzRead(f *testing.F) {
	seeds, err := filepath.Glob("testdata/*.json")
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, seed := range seeds {
		b, err := os.ReadFile(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var lease coordinationv1.Lease
		if json.Unmarshal(b, &lease) != nil {
			t.Skip("no lease")
		}
		got := Snapshot(&lease).Record
		if got.LeaseDuration < 0 || got.Transitions < 0 {
			t.Fatalf("negative: %+v", got)
		}
		if Check(got) != nil {
			return
		}
		if again := Read(Write(&lease, got)); again != got {
			t.Fatalf("read %+v\nthen %+v", got, again)
		}
	})
}
