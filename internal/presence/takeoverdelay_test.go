// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package presence

import (
	"slices"
	"strings"
	"testing"
)

// TestWhoPrefersWhatIsKnownOrSaidToBeUnknown: a text that was cut, or that a later version
// wrote, must not name other zones than the candidate prefers.
func TestWhoPrefersWhatIsKnownOrSaidToBeUnknown(t *testing.T) {
	for _, zones := range [][]string{nil, {"za"}, {"zb", "za"}} {
		if got, known := PreferredZones(ByZones(zones)); !known || !slices.Equal(got, zones) {
			t.Errorf("%q reads as %q, %v", zones, got, known)
		}
	}
	for _, text := range []string{"", OwnDelay, "zonesza", "later za", ByZones([]string{strings.Repeat("z", 2000)})} {
		if got, known := PreferredZones(text); known {
			t.Errorf("%.20q reads as %q", text, got)
		}
	}
}
