// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package presence

import (
	"strings"
	"testing"
)

// TestWhoPrefersWhatIsSaidInFullOrNotAtAll: a text that was cut would name other zones than the candidate prefers.
func TestWhoPrefersWhatIsSaidInFullOrNotAtAll(t *testing.T) {
	for text, zones := range map[string][]string{"zones": nil, "zones za": {"za"}, "zones zb,za": {"zb", "za"}, OwnDelay: {strings.Repeat("z", 2000)}} {
		if got := ByZones(zones); got != text {
			t.Errorf("%.20q, want %q", got, text)
		}
	}
}
