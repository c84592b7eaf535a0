// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"os"
	"testing"
)

func TestAProcessIsReadWhateverItsName(t *testing.T) {
	for stat, want := range map[string]child{
		"7 (sh) S 1 7 7 0 -1":           {pid: 7, parent: 1, session: 7},
		"7 (a) Z 9 (b)) Z 5 6 4 0 -1":   {pid: 7, parent: 5, session: 4, zombie: true},
		"7 (Z S 1 2 3) R 12 7 34 0 -1 ": {pid: 7, parent: 12, session: 34},
	} {
		if got, err := parseStat(7, stat); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", stat, got, err, want)
		}
	}
	for _, stat := range []string{"", "7 (sh)", "7 (sh) S 1", "7 (sh) S x 7 7", "7 (sh) S 1 7 x"} {
		if got, err := parseStat(7, stat); err == nil {
			t.Errorf("%q: %+v", stat, got)
		}
	}
	if own, err := look(os.Getpid()); err != nil || own.parent != os.Getppid() || own.zombie {
		t.Errorf("of this process: %+v, %v", own, err)
	}
}
